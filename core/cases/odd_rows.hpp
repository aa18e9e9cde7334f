// SPDX-License-Identifier: Apache-2.0
// Contents in which some rows of the last axis are unlike the others.
#pragma once
#include "core/tensor/random.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

// Every second row, in the mean, is nothing: what is divided by its size divides by nothing.
void make_zero_rows(Random random, Tensor& t);

// Every row is 2^-least to once what it was, and every fifth, in the mean, is nothing; the first
// two are what they were and nothing, in one order or the other.
void make_sized_rows(Random& random, int least, Tensor& t);

// About half of the places have that value, whether that is the first one or not.
void make_either(Random random, double value, Tensor& t);

// One place of every row has that value, or up to a quarter more: rows differ.
void make_peaks(Random random, double value, Tensor& t);

// One row in 128, and at least one, is larger by `by` to 1.25 `by` everywhere: as keys under
// queries around 1 these are the tokens that most of a softmax goes to, and what is left to all
// others is much together and next to nothing for each.
void make_sinks(Random random, double by, Tensor& t);

// Indices: some become -1, and some do not as soon as there are two.
void skip_some(Random random, Tensor& t);

}  // namespace fk
