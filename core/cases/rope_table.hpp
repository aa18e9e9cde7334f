// SPDX-License-Identifier: Apache-2.0
// Cosines and sines by position, [length, width]: half of a row each.
#pragma once
#include "core/tensor/random.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

// Angles that grow with the position, as models have them, but with frequencies and a factor of
// this seed alone: who computes the angles that are usual instead of reading the table is wrong.
void make_rope(Random random, int64_t length, int64_t width, Tensor& t);

}  // namespace fk
