// SPDX-License-Identifier: Apache-2.0
// The device of these kernels. nvcc compiles the PTX instructions of the headers in this folder. A
// C++ compiler gets their emulation instead (test/cuda_emulation), which runs the same kernels on
// the CPU.
#pragma once
#include <cuda.h>

#include "convert.cuh"
#include "fk/tensor.h"

#ifdef __CUDACC__

namespace fkc {

inline constexpr int32_t kDevice = FK_CUDA, kSm[] = {90}, kSmCount = 1;
inline constexpr int kManyThreads = 1024;  // of a block with much work; the emulation has fewer

}  // namespace fkc

#else
#include "emulated_ptx.hpp"
#endif
