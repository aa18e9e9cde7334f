# SPDX-License-Identifier: Apache-2.0
if(fk_use_opencl)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
  fk_add_backend(opencl SOURCES ${sources})
  target_link_libraries(backend_opencl PRIVATE OpenCL::OpenCL)
  target_compile_options(backend_opencl PRIVATE ${FK_WARNINGS})
else()
  set(FK_BACKEND_MISSING "no OpenCL loader and headers (ocl-icd-opencl-dev)")
endif()
