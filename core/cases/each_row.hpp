// SPDX-License-Identifier: Apache-2.0
// Changes a tensor of floats row by row (last axis), in float32, on several threads.
#pragma once
#include <functional>
#include <span>

#include "core/tensor/tensor.hpp"

namespace fk {

// Calls change(i, row) for every row i, in any order, and stores `row` unless it returns false.
// float32 holds all values of 16-bit and 8-bit floats.
void each_row(Tensor& t, const std::function<bool(int64_t, std::span<float>)>& change);

}  // namespace fk
