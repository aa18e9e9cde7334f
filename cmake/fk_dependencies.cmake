# SPDX-License-Identifier: Apache-2.0
#
# Every package of the host, found with the names that Debian 12 and Ubuntu 24.04 use. What is
# missing is collected and reported once, with the one command that installs all of it.

set(fk_missing)
macro(fk_need condition package)
  if(NOT (${condition}))
    list(APPEND fk_missing ${package})
  endif()
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

find_package(fmt 9 QUIET)
fk_need("TARGET;fmt::fmt" libfmt-dev)

# 0.7 names its target yaml-cpp, 0.8 yaml-cpp::yaml-cpp; both names work after this.
find_package(yaml-cpp QUIET)
fk_need("TARGET;yaml-cpp;OR;TARGET;yaml-cpp::yaml-cpp" libyaml-cpp-dev)
if(TARGET yaml-cpp::yaml-cpp AND NOT TARGET yaml-cpp)
  add_library(yaml-cpp INTERFACE IMPORTED)
  target_link_libraries(yaml-cpp INTERFACE yaml-cpp::yaml-cpp)
elseif(TARGET yaml-cpp AND NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp INTERFACE IMPORTED)
  target_link_libraries(yaml-cpp::yaml-cpp INTERFACE yaml-cpp)
endif()

find_package(nlohmann_json 3.11 QUIET)
fk_need("TARGET;nlohmann_json::nlohmann_json" nlohmann-json3-dev)

find_package(CLI11 QUIET)
fk_need("TARGET;CLI11::CLI11" libcli11-dev)

# Regular expressions and Unicode for tokenizers. Neither package has files for CMake.
set(FK_TOKENIZERS ON)
foreach(fk_library PCRE2:pcre2.h:pcre2-8:libpcre2-dev UTF8PROC:utf8proc.h:utf8proc:libutf8proc-dev)
  string(REPLACE ":" ";" fk_library ${fk_library})
  list(POP_FRONT fk_library fk_name fk_header fk_file fk_package)
  find_path(FK_${fk_name}_INCLUDE ${fk_header})
  find_library(FK_${fk_name}_LIBRARY ${fk_file})
  if(NOT FK_${fk_name}_INCLUDE OR NOT FK_${fk_name}_LIBRARY)
    set(FK_TOKENIZERS OFF)
    message(STATUS "no ${fk_name}: texts have no tokenizer (${fk_package})")
  endif()
endforeach()

# Boost.DLL is headers; with the standard's file system nothing is linked.
if(POLICY CMP0167)
  cmake_policy(SET CMP0167 OLD)
endif()
find_package(Boost 1.74 QUIET)
fk_need("Boost_FOUND" libboost-dev)

# Without Catch2 there are no tests, unless they are asked for; a run needs none.
set(fk_use_tests ON)
if(DEFINED BUILD_TESTING)
  set(fk_use_tests ${BUILD_TESTING})
endif()
if(fk_use_tests)
  find_package(Catch2 QUIET)  # 2 or 3: test/catch.hpp hides the difference
  if(NOT DEFINED BUILD_TESTING AND NOT TARGET Catch2::Catch2)
    set(fk_use_tests OFF)
    message(STATUS "no Catch2: the tests are not built")
  else()
    fk_need("TARGET;Catch2::Catch2" catch2)
  endif()
endif()

if(fk_missing)
  list(REMOVE_DUPLICATES fk_missing)
  list(JOIN fk_missing " " fk_missing)
  message(FATAL_ERROR "packages are missing; install them with\n  apt-get install -y ${fk_missing}\n")
endif()

# OpenCL devices need a loader and its headers; a driver is found when the host runs.
set(FK_OPENCL AUTO CACHE STRING "ON, OFF, or AUTO: where the OpenCL loader and its headers are found")
set(fk_use_opencl OFF)
if(FK_OPENCL AND NOT FK_SANITIZE)  # a driver compiles in the process, and knows no sanitizer
  find_package(OpenCL QUIET)
  if(OpenCL_FOUND)
    set(fk_use_opencl ON)
  elseif(NOT FK_OPENCL STREQUAL "AUTO")
    message(FATAL_ERROR "-DFK_OPENCL=${FK_OPENCL}: no OpenCL loader or headers; apt-get install -y ocl-icd-opencl-dev")
  endif()
endif()

# Debian's hiredis has no files for CMake.
find_path(FK_HIREDIS_INCLUDE hiredis/hiredis.h)
find_library(FK_HIREDIS_LIBRARY hiredis)
if(FK_HIREDIS_INCLUDE AND FK_HIREDIS_LIBRARY)
  add_library(fk::hiredis INTERFACE IMPORTED)
  target_include_directories(fk::hiredis INTERFACE ${FK_HIREDIS_INCLUDE})
  target_link_libraries(fk::hiredis INTERFACE ${FK_HIREDIS_LIBRARY})
endif()

# fk_optional(<target> <package> <library> <definition> <what is off>): links a library that may be missing;
# the sources of the target see the definition where it is there. -DFK_WITH_<package>=OFF does without it.
function(fk_optional target package library definition off)
  option(FK_WITH_${package} "use ${package} where it is found" ON)
  if(FK_WITH_${package})
    find_package(${package} QUIET)
  endif()
  if(FK_WITH_${package} AND TARGET ${library})
    target_link_libraries(${target} PUBLIC ${library})
    target_compile_definitions(${target} PUBLIC ${definition})
  else()
    message(STATUS "no ${package}: ${off}")
  endif()
endfunction()

# GCC 12 warns about overlapping copies in `"literal" + std::string` where there are none
# (https://gcc.gnu.org/PR105651, mended in 13).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
