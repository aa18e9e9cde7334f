// SPDX-License-Identifier: Apache-2.0
// A tensor of floats changed row by row of its last axis, in float32, by several threads.
#pragma once
#include <functional>
#include <span>

#include "core/tensor/tensor.hpp"

namespace fk {

// Calls change(i, row) for every row i, in any order; what it leaves in `row` is stored, unless it
// answers false. float32 holds all values of 16 and 8 bits.
void each_row(Tensor& t, const std::function<bool(int64_t, std::span<float>)>& change);

}  // namespace fk
