// SPDX-License-Identifier: Apache-2.0
// Rounds rows of floats to f8e4m3 in groups of 128, by quantize_input of linear_fp8_block. Scales
// have the layout of cuBLASLt's blocks of 1 x 128 values.
#pragma once
#include <cuda_runtime_api.h>

#include "fk/cpp/plugin.hpp"

namespace fkb {

inline constexpr int64_t kGroup = 128;

// x [rows, columns] with a dense last axis becomes values [padded, columns] and scales [groups,
// padded]. Rows from `rows` on are zeros.
struct Quantized {
  uint8_t* values;
  float* scales;
  int64_t rows, padded, columns;
  int64_t groups() const { return (columns + kGroup - 1) / kGroup; }
};
void quantize(const fk_in* x, const Quantized& to, cudaStream_t stream);

// to[i] = from[i / group] for i below `count`.
void repeat(const float* from, int64_t group, float* to, int64_t count, cudaStream_t stream);

}  // namespace fkb
