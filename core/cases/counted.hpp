// SPDX-License-Identifier: Apache-2.0
// Outputs whose size only the data knows: memory by a capacity, comparison by the count that the
// call wrote.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// How a field falls into groups of rows, and how many rows of each hold a result. A field without
// a count is one group that is full.
struct Extent {
  int64_t capacity = 0;         // rows of a group
  Shape tail;                   // of a row
  int64_t row = 1;              // elements of a row
  std::vector<int64_t> counts;  // valid rows, by group; 0 where the count exceeds the capacity
  int64_t rows() const;         // all valid rows
};

// The extent of one tensor of `field`, by the counts in `outputs`.
Extent extent_of(const ResolvedCase& resolved, const CaseField& field, int64_t entry,
                 const CaseValues& outputs);

// The valid rows alone, as [rows, ...]; with `sorted`, those of each group in
// lexicographic order, so that equal sets of rows are equal tensors. A tensor that is full stays as
// it is.
Tensor valid_part(const Extent& extent, const Tensor& tensor, bool sorted);

}  // namespace fk
