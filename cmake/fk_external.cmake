# SPDX-License-Identifier: Apache-2.0
# fk_external(<archive> <variable>): unpacks external/<archive>.tar.xz, which scripts/fetch_external.sh makes, below
# the build folder and sets <variable>, a cache variable, to where it is; empty where there is no such archive. A
# folder with the same contents can be given instead.
function(fk_external archive variable)
  set(${variable} "" CACHE PATH "the unpacked ${archive}; empty: from external/")
  if(${variable})
    return()
  endif()
  set(packed ${PROJECT_SOURCE_DIR}/external/${archive}.tar.xz)
  set(unpacked ${PROJECT_BINARY_DIR}/external/${archive})
  if(NOT EXISTS ${packed})
    return()
  endif()
  if(NOT EXISTS ${unpacked} OR ${packed} IS_NEWER_THAN ${unpacked})
    file(REMOVE_RECURSE ${unpacked})
    file(ARCHIVE_EXTRACT INPUT ${packed} DESTINATION ${unpacked})
    file(TOUCH_NOCREATE ${unpacked})
  endif()
  set(${variable} ${unpacked} PARENT_SCOPE)
endfunction()
