// SPDX-License-Identifier: Apache-2.0
// Cosines and sines by position, [length, width]; half of each row is cosines, half sines.
#pragma once
#include "core/tensor/random.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

// Angles grow with the position, as in models, but frequencies and a factor come from the seed. So
// code which computes the usual angles, and does not read the table, is wrong.
void make_rope(Random random, int64_t length, int64_t width, Tensor& t);

}  // namespace fk
