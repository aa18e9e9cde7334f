// SPDX-License-Identifier: Apache-2.0
// Where the elements of a tensor lie that has gaps.
#pragma once
#include <iterator>

#include "core/tensor/tensor.hpp"

namespace fk {

// Calls body(row-major index of the first, its offset in elements, how many) for all elements, as
// many at once as lie beside each other.
template <class Body>
void each_run(const Shape& shape, const Shape& strides, const Body& body) {
  const int64_t all = numel(shape);
  size_t outer = shape.size();
  int64_t run = 1;
  while (outer > 0 && (strides[outer - 1] == run || shape[outer - 1] == 1)) run *= shape[--outer];
  Shape at(outer, 0);
  int64_t offset = 0;
  for (int64_t flat = 0; flat < all; flat += run) {
    body(flat, offset, run);
    for (size_t d = outer; d-- > 0;) {
      offset += strides[d];
      if (++at[d] < shape[d]) break;
      offset -= strides[d] * shape[d];
      at[d] = 0;
    }
  }
}

// Elements from the first to the last one, both counted.
inline int64_t reach(const Shape& shape, const Shape& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    last += (shape[d] - 1) * strides[d];
  }
  return last + 1;
}

// Strides with gaps behind every axis but the last, as in a slice of a larger tensor. `wider` other
// tensors of the same shape have other ones. Every other gap leaves rows where 16 bytes are not
// aligned. They do not depend on the first axis: with fewer rows an instance keeps its strides.
inline Shape padded_strides(const Shape& shape, int64_t wider) {
  constexpr int64_t kGaps[] = {16, 3, 24, 1, 8, 5, 32, 7};  // elements
  constexpr auto kMany = static_cast<int64_t>(std::size(kGaps));
  Shape strides = contiguous_strides(shape);
  const int64_t first = static_cast<int64_t>(shape.size()) + (shape.empty() ? 0 : shape.back() / 8);
  const int64_t gap = kGaps[(first + wider) % kMany];
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d] + gap;
  return strides;
}

}  // namespace fk
