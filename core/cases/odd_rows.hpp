// SPDX-License-Identifier: Apache-2.0
// Contents in which some rows (last axis) differ from the others.
#pragma once
#include "core/tensor/random.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

// On average every second row is zero: a division by its size divides by zero.
void make_zero_rows(Random random, Tensor& t);

// Multiplies rows by a factor between 2^-least and 1; on average every fifth row is zero. One of
// the first two rows is unchanged and the other is zero, in random order.
void make_sized_rows(Random& random, int least, Tensor& t);

// About half of the elements get this value, among them exactly one of the first two.
void make_either(Random random, double value, Tensor& t);

// One element of every row is between `value` and 1.25 `value`: rows differ.
void make_peaks(Random random, double value, Tensor& t);

// One row in 128, and at least one, is larger by `by` to 1.25 `by` everywhere. As keys under
// queries around 1, these tokens get most of a softmax. All other tokens together get a
// considerable rest, but almost nothing each.
void make_sinks(Random random, double by, Tensor& t);

// Rows are matrices [[a, b], [b, c]] of two axes, as a, b, c. b becomes half of sqrt(a c): an ellipse.
void make_ellipses(Tensor& t);

// Indices: some become -1. The first one stays, the second one becomes -1.
void skip_some(Random random, Tensor& t);

}  // namespace fk
