# SPDX-License-Identifier: Apache-2.0
include(fk_external)
fk_external(flashinfer-0.6.16 FK_FLASHINFER)
if(NOT fk_use_cuda)
  set(FK_PROVIDER_MISSING "no CUDA compiler, or no NVIDIA GPU and FK_CUDA=ON was not given")
elseif(NOT FK_FLASHINFER)
  set(FK_PROVIDER_MISSING "needs the headers of FlashInfer in external/: scripts/fetch_external.sh fetches them, or -DFK_FLASHINFER=<flashinfer/data of the wheel>")
else()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp ${CMAKE_CURRENT_LIST_DIR}/*.cu)
  fk_add_plugin(flashinfer SOURCES ${sources})
  # Their CCCL is newer than the toolkit's and must come first.
  target_include_directories(plugin_flashinfer PRIVATE
    ${FK_FLASHINFER}/cccl/libcudacxx/include ${FK_FLASHINFER}/cccl/cub ${FK_FLASHINFER}/cccl/thrust ${FK_FLASHINFER}/include
    ${FK_FLASHINFER}/cutlass/include ${FK_FLASHINFER}/cutlass/tools/util/include ${FK_FLASHINFER}/spdlog/include)
  # The warnings would be about the templates.
  target_compile_options(plugin_flashinfer PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -w>)
  target_compile_definitions(plugin_flashinfer PRIVATE NDEBUG)
  target_link_libraries(plugin_flashinfer PRIVATE CUDA::cudart)
endif()
