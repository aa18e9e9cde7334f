// SPDX-License-Identifier: Apache-2.0
// Mutants: answers of kernels that skip the work, made from a case's inputs and the reference's
// outputs. A comparison that accepts one of them judges nothing: the case is then `untestable`,
// with the mutant's name, and no candidate can pass it.
//
// Mutants of one output, with all others right:
//   zeros, stale          zeros, or an inout field's earlier content
//   copy of X             each input with as many elements of the same kind, unless the right
//                         answer is this copy
//   constant              the mean of the reference
//   half of the rows, half of the columns, the last row, a late tile
//                         missing: zero, or for inout fields unchanged
//   two rows swapped      the first with the last one that differs
//   scaled                by 1.01; floats
// Mutants of the whole call, which ask the reference:
//   lower precision       inputs rounded one class lower: float32 to tf32 and to bfloat16, sixteen
//                         bits to f8e4m3; if a float is written
//   weights of one        every float weight is 1
//   eight bits            one weight with sized columns (columns.hpp) as whole numbers, with a
//                         scale for every row
// A missing piece, a swap or a rounding that leaves the right answer is no mutant.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/cases/inputs.hpp"
#include "core/cases/selection.hpp"

namespace fk {

// Larger outputs are not compared with every mutant.
inline constexpr int64_t kMutantElements = int64_t{1} << 20;
// Number of elements in all outputs of a call.
int64_t written_elements(const ResolvedCase& resolved);

struct Mutant {
  std::string name;   // "zeros in out", "lower precision: inputs in bf16"
  std::string field;  // the wrong output; empty: any output may be wrong
  CaseValues answer;  // every output, in the case's dtypes
};

// Calls take(mutant) for each mutant, one at a time, until it returns false. Returns the names of
// the remaining ones; some of them may equal the right answer. `want`: the reference's outputs for
// `inputs`. Without `ask`, mutants of the whole call are left out.
std::vector<std::string> each_mutant(const ResolvedCase& resolved, const CaseValues& inputs,
                                     const CaseValues& want, const AskReference& ask,
                                     const std::function<bool(const Mutant&)>& take);

// Names of mutants that the comparison (comparison.hpp) accepts; empty when the case rejects all.
std::vector<std::string> accepted_mutants(const ResolvedCase& resolved, const CaseValues& inputs,
                                          const CaseValues& want, const AskReference& ask);

}  // namespace fk
