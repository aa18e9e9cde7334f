# SPDX-License-Identifier: Apache-2.0
if(fk_use_cuda)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cu ${CMAKE_CURRENT_LIST_DIR}/*/*.cu)
  fk_add_plugin(cuda SOURCES ${sources})
  target_compile_options(plugin_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--use_fast_math>)
  target_link_libraries(plugin_cuda PRIVATE CUDA::cudart)
else()
  set(FK_PROVIDER_MISSING "no CUDA compiler, or no NVIDIA GPU and FK_CUDA=ON was not given")
endif()
