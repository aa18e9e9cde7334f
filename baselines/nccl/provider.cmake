# SPDX-License-Identifier: Apache-2.0
#
# The communicator's collectives where they are NCCL's: the host loads it, nothing of it is linked here.
if(fk_use_cuda)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp ${CMAKE_CURRENT_LIST_DIR}/*.cu)
  fk_add_plugin(nccl SOURCES ${sources})
  target_compile_options(plugin_nccl PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-O3;-Wconversion;-Wshadow;-Werror>)
  target_link_libraries(plugin_nccl PRIVATE CUDA::cudart)
else()
  set(FK_PROVIDER_MISSING "no CUDA compiler, or no NVIDIA GPU and FK_CUDA=ON was not given")
endif()
