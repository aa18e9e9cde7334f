# SPDX-License-Identifier: Apache-2.0
#
# The fast CPU baseline. Matrix products come from oneDNN where it is packaged, else from OpenBLAS; each op
# file is compiled once per instruction set level (level.hpp).

find_package(OpenMP QUIET COMPONENTS CXX)
# Looked for by file: Debian's dnnl-config.cmake insists on OpenCL's headers, which no CPU product needs.
find_path(FK_DNNL_INCLUDE NAMES oneapi/dnnl/dnnl.hpp)
find_library(FK_DNNL NAMES dnnl)
mark_as_advanced(FK_DNNL_INCLUDE FK_DNNL)
set(FK_CPU_GEMM)
if(FK_DNNL_INCLUDE AND FK_DNNL)
  set(FK_CPU_GEMM onednn)
  set(FK_CPU_GEMM_LIBRARY ${FK_DNNL})
  set(FK_CPU_GEMM_INCLUDE ${FK_DNNL_INCLUDE})
else()
  find_path(FK_CBLAS_INCLUDE NAMES cblas.h PATH_SUFFIXES openblas openblas-pthread)
  find_library(FK_OPENBLAS NAMES openblas)
  mark_as_advanced(FK_CBLAS_INCLUDE FK_OPENBLAS)
  if(FK_CBLAS_INCLUDE AND FK_OPENBLAS)
    set(FK_CPU_GEMM openblas)
    set(FK_CPU_GEMM_LIBRARY ${FK_OPENBLAS})
    set(FK_CPU_GEMM_INCLUDE ${FK_CBLAS_INCLUDE})
  endif()
endif()

if(NOT OpenMP_CXX_FOUND)
  set(FK_PROVIDER_MISSING "needs a compiler with OpenMP")
elseif(NOT FK_CPU_GEMM)
  set(FK_PROVIDER_MISSING "needs oneDNN (libdnnl-dev) or OpenBLAS (libopenblas-dev)")
else()
  set(cpu_dir ${CMAKE_CURRENT_LIST_DIR})
  file(GLOB_RECURSE cpu_all CONFIGURE_DEPENDS ${cpu_dir}/*.cpp)
  set(cpu_kernels ${cpu_all})
  list(FILTER cpu_kernels EXCLUDE REGEX "/(plugin|team|gemm_[a-z]+)\\.cpp$")
  # The last two are wrong about the intrinsics of gcc 12.
  set(cpu_options -ffp-contract=fast -fno-math-errno -fno-trapping-math -Wconversion -Wshadow -Werror
                  -Wno-psabi -Wno-uninitialized -Wno-maybe-uninitialized)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # gcc 13 leaves some products unfused, by how many rows a kernel has. Then a row's last bits depend
    # on the rows beside it.
    list(APPEND cpu_options --param=avoid-fma-max-bits=0)
  endif()
  if(NOT FK_SANITIZE)
    list(APPEND cpu_options -O3)
  endif()

  set(cpu_levels)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    set(cpu_levels avx2 avx512)
  endif()
  set(cpu_flags_avx2 -mavx2 -mfma -mf16c)
  set(cpu_flags_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512cd -mfma -mf16c
                       -mprefer-vector-width=512)
  set(cpu_objects)
  foreach(level ${cpu_levels})
    add_library(cpu_${level} OBJECT ${cpu_kernels})
    target_include_directories(cpu_${level} PRIVATE ${cpu_dir})
    target_compile_definitions(cpu_${level} PRIVATE FK_CPU_LEVEL=${level} FK_CPU_X86)
    target_compile_options(cpu_${level} PRIVATE ${FK_PLUGIN_FLAGS} ${FK_PLUGIN_FLAGS_CXX} ${cpu_options}
                                                ${cpu_flags_${level}})
    list(APPEND cpu_objects $<TARGET_OBJECTS:cpu_${level}>)
  endforeach()

  fk_add_plugin(cpu SOURCES ${cpu_kernels} ${cpu_dir}/plugin.cpp ${cpu_dir}/team.cpp ${cpu_dir}/gemm_${FK_CPU_GEMM}.cpp
                            ${cpu_objects})
  target_compile_definitions(plugin_cpu PRIVATE FK_CPU_LEVEL=generic FK_CPU_OPS
                                                $<$<BOOL:${cpu_levels}>:FK_CPU_X86>)
  target_compile_options(plugin_cpu PRIVATE ${cpu_options})
  target_include_directories(plugin_cpu PRIVATE ${cpu_dir})
  target_include_directories(plugin_cpu SYSTEM PRIVATE ${FK_CPU_GEMM_INCLUDE})
  target_link_libraries(plugin_cpu PRIVATE OpenMP::OpenMP_CXX ${FK_CPU_GEMM_LIBRARY})
endif()
