// SPDX-License-Identifier: Apache-2.0
// Outputs whose number of rows depends on data: memory has a capacity, and the comparison uses the
// count that the call wrote.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// Groups of rows of a field, and the number of valid rows in each. A field without a count is one
// full group.
struct Extent {
  int64_t capacity = 0;         // rows of a group
  Shape tail;                   // shape of a row
  int64_t row = 1;              // elements of a row
  std::vector<int64_t> counts;  // valid rows, by group; 0 where the count exceeds the capacity
  int64_t rows() const;         // all valid rows
};

// The extent of one tensor of `field`, from the counts in `outputs`.
Extent extent_of(const ResolvedCase& resolved, const CaseField& field, int64_t entry,
                 const CaseValues& outputs);

// The valid rows only, as [rows, ...]. With `sorted`, the rows of each group are in lexicographic
// order, so that equal sets of rows give equal tensors. A full tensor is returned unchanged.
Tensor valid_part(const Extent& extent, const Tensor& tensor, bool sorted);

}  // namespace fk
