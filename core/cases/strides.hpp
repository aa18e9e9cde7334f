// SPDX-License-Identifier: Apache-2.0
// Positions of a tensor's elements if there are gaps between rows.
#pragma once
#include <iterator>
#include <vector>

#include "core/cases/inputs.hpp"
#include "core/tensor/random.hpp"
#include "core/tensor/tensor.hpp"

namespace fk {

// Calls body(index, offset, count) for each run of elements without a gap. `index` is the row-major
// index of its first element, `offset` this element's position, in elements.
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

// Number of elements from the first to the last one, both included.
inline int64_t reach(const Shape& shape, const Shape& strides) {
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    last += (shape[d] - 1) * strides[d];
  }
  return last + 1;
}

// Strides with gaps behind every axis but the last, as in a slice of a larger tensor. `wider`
// selects the gaps, so that tensors of one shape differ. Every second gap has 1 to 7 elements,
// which breaks the alignment of rows to 16 bytes. Strides do not depend on the first axis's length.
// `dense_rows`: only the first axis has a gap, for kernels which need the parts of a row (heads)
// beside each other.
inline Shape padded_strides(const Shape& shape, int64_t wider, bool dense_rows = false) {
  constexpr int64_t kGaps[] = {16, 3, 24, 1, 8, 5, 32, 7, 16, 2, 24, 4, 8, 6};  // elements
  constexpr auto kMany = static_cast<int64_t>(std::size(kGaps));
  Shape strides = contiguous_strides(shape);
  const int64_t first = static_cast<int64_t>(shape.size()) + (shape.empty() ? 0 : shape.back() / 8);
  const int64_t gap = kGaps[(first + wider) % kMany];
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d] + (dense_rows && d > 1 ? 0 : gap);
  return strides;
}

// Gaps without memory let offsets exceed 32 bits: only a few rows of the first axis have memory. A
// case spaces its rows (`strided`), or a weight has many rows and the generator
// `held(0,5,536870917)` names the existing ones. Contents are these rows, in order.

// The rows named by `held(...)`, ascending; empty: all rows have contents.
std::vector<int64_t> named_rows(const CaseField& field);
Shape contents_shape(const CaseField& field, int64_t entry);

// Ids among these rows, for `among(weight)`. With two axes they are distinct within a row; with one
// axis, as distinct as possible.
std::vector<int64_t> ids_among(const std::vector<int64_t>& rows, const Shape& shape, Random random);

// Like each_run(), for rows with contents only.
template <class Body>
void each_held_run(const CaseField& field, const Shape& contents, const Shape& strides,
                   const Body& body) {
  const auto rows = named_rows(field);
  if (rows.empty()) return each_run(contents, strides, body);
  for (size_t i = 0; i < rows.size(); ++i)
    body(static_cast<int64_t>(i) * strides[0], rows[i] * strides[0], strides[0]);
}

// A part of a tensor's memory, in elements.
struct HeldElements {
  int64_t at, count;
};
// Parts with memory: the rows, and a margin on either side. Empty: the whole tensor has memory.
std::vector<HeldElements> held_elements(const CaseField& field, const Shape& shape,
                                        const Shape& strides);

// True when a tensor of the case has gaps without memory.
bool has_gaps(const ResolvedCase& resolved);

}  // namespace fk
