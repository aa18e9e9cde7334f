// SPDX-License-Identifier: Apache-2.0
// Elementwise reduction over the ranks' values, in the order of the ranks, so that every rank
// computes the same bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor/dtype.hpp"

namespace fk {

// out[i] = from[0][i] op from[1][i] op ... (op is FK_SUM, FK_MAX or FK_MIN). Floats are summed in
// double and rounded once; whole numbers as i64. `out` may be one of `from`. Error for an unknown
// op or a dtype without arithmetic.
void reduce_ranks(const std::vector<const std::byte*>& from, std::byte* out, DType dtype,
                  int64_t count, int64_t op);

}  // namespace fk
