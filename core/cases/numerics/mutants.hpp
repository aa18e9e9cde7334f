// SPDX-License-Identifier: Apache-2.0
// Null candidates: the answers of kernels that do not do the work, made from a case's inputs and
// the reference's outputs. A comparison that takes one of them for right judges nothing, so such a
// case is `untestable` with that mutant's name, and nobody can pass on it.
//
// Per output, with all others right:
//   zeros, stale          nothing, or what an inout field held before
//   copy of X             of every input with as many elements of the same sort, where the right
//                         answer is not itself that copy
//   constant              the mean of the reference
//   half of the rows, half of the columns, the last row, a late tile
//                         are missing: zero, or for inout fields as they were
//   two rows swapped      the first with the last one that differs
//   scaled                by 1.01; floats
// Of the whole call, by asking the reference:
//   lower precision       inputs rounded one class lower: float32 to tf32 and to bfloat16, sixteen
//                         bits to f8e4m3; where a float is written
//   weights of one        every float weight 1
//   eight bits            one weight whose columns have sizes (columns.hpp) as whole numbers, with
//   a
//                         scale for every row
// A missing piece, a swap or a rounding that leaves the right answer is none.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/cases/inputs.hpp"
#include "core/cases/selection.hpp"

namespace fk {

struct Mutant {
  std::string name;   // "zeros in out", "lower precision: inputs in bf16"
  std::string field;  // the output that is wrong; empty: any of them may be
  CaseValues answer;  // every output, in the case's dtypes
};

// Calls take(mutant) for each, one at a time, until it returns false; the names of those that were
// left, of which some may be the right answer. `want`: the reference's outputs for `inputs`.
// Without `ask` those of the whole call are not there.
std::vector<std::string> each_mutant(const ResolvedCase& resolved, const CaseValues& inputs,
                                   const CaseValues& want, const AskReference& ask,
                                   const std::function<bool(const Mutant&)>& take);

// The names of those that the comparison (comparison.hpp) takes for right; empty when the case can
// tell right from mutant.
std::vector<std::string> accepted_mutants(const ResolvedCase& resolved, const CaseValues& inputs,
                                        const CaseValues& want, const AskReference& ask);

}  // namespace fk
