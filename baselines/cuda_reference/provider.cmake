# SPDX-License-Identifier: Apache-2.0
if(fk_use_cuda)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cu ${CMAKE_CURRENT_LIST_DIR}/collective/*.cu)
  fk_add_plugin(cuda_reference SOURCES ${sources})
  target_compile_options(plugin_cuda_reference PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--extended-lambda>)
  target_link_libraries(plugin_cuda_reference PRIVATE CUDA::cudart)
else()
  set(FK_PROVIDER_MISSING "no CUDA compiler, or no NVIDIA GPU and FK_CUDA=ON was not given")
endif()
