# SPDX-License-Identifier: Apache-2.0
# CPack's description of one .deb, from variables of the environment: FK_PACKAGE, FK_ROOT (what lies below /usr),
# FK_REVISION (1.0.0-1~debian12), FK_ARCH (amd64). CPack reads this file before its -D. dpkg-shlibdeps names the libraries.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME $ENV{FK_PACKAGE})
set(CPACK_PACKAGE_VERSION $ENV{FK_REVISION})
set(CPACK_PACKAGE_FILE_NAME $ENV{FK_PACKAGE}_$ENV{FK_REVISION}_$ENV{FK_ARCH})
set(CPACK_INSTALLED_DIRECTORIES "$ENV{FK_ROOT};/usr")
set(CPACK_PACKAGING_INSTALL_PREFIX /)
set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE $ENV{FK_ARCH})
set(CPACK_DEBIAN_PACKAGE_VERSION $ENV{FK_REVISION})
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "fk-host developers <fk-host@localhost>")
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
if("$ENV{FK_PACKAGE}" STREQUAL fk-host)
  set(CPACK_DEBIAN_PACKAGE_SECTION devel)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++, python3")
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS "fk-host-cuda, pocl-opencl-icd | opencl-icd, cmake")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "judges kernels inside whole models")
  set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "fk-host decides if a kernel is correct, and if it makes real models
faster. A kernel is a shared library with a small C interface. The host loads it
into whole models beside trusted kernels, and reports correctness and speed.

This package has the host, its providers for the CPU and OpenCL, the
headers, the contracts of all ops, and models with their scenarios.")
else()
  set(CPACK_DEBIAN_PACKAGE_SECTION contrib/devel)
  set(CPACK_DEBIAN_PACKAGE_DEPENDS "fk-host (= $ENV{FK_REVISION})")
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS /usr/local/cuda/lib64)
  # Toolkits often come without packages, so the loader may find their libraries in other places.
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "cuda-toolkit | nvidia-cuda-toolkit")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "judges CUDA kernels inside whole models")
  set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "The host with NVIDIA's GPUs as devices, and the providers for them.

The package takes the place of the program of fk-host, which has no CUDA.")
  set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/preinst ${CMAKE_CURRENT_LIST_DIR}/postrm)
endif()
set(CPACK_PACKAGE_DESCRIPTION ${CPACK_PACKAGE_DESCRIPTION_SUMMARY})  # CPack insists on it
