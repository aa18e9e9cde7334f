# SPDX-License-Identifier: Apache-2.0
if(fk_use_opencl)
  # The kernels' source becomes a string of the plugin.
  set(kernels ${CMAKE_CURRENT_LIST_DIR}/kernels.cl)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernels})
  file(READ ${kernels} FK_KERNELS)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/kernels.cpp.in ${FK_GENERATED}/opencl_reference/kernels.cpp @ONLY)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
  fk_add_plugin(opencl_reference SOURCES ${sources} ${FK_GENERATED}/opencl_reference/kernels.cpp)
  target_link_libraries(plugin_opencl_reference PRIVATE OpenCL::OpenCL)
else()
  set(FK_PROVIDER_MISSING "no OpenCL loader and headers (ocl-icd-opencl-dev)")
endif()
