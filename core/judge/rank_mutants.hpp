// SPDX-License-Identifier: Apache-2.0
// Null candidates of a call that ranks make together: besides those of every op, the answers of
// ranks that do not talk to each other as they should. A mutant is rejected when the comparison of
// any rank rejects it, because all of them are compared.
//
//   rank 0's answer        on every rank
//   the last rank missing  its floats are zero
//   lower precision        the floats of all ranks rounded one class lower: float32 to bfloat16,
//                          sixteen bits to f8e4m3
//   nobody asked           one rank's answer when all others' floats are zero
//   all as this one        one rank's answer when all ranks have its floats: x times the ranks
// What leaves the right answer on every rank is no mutant.
#pragma once
#include <functional>
#include <vector>

#include "core/judge/mutation_test.hpp"

namespace fk {

// The reference's outputs by rank where the ranks have these contents; empty ones when it fails.
using AskRanks = std::function<std::vector<CaseValues>(const std::vector<CaseValues>& contents)>;

// As try_mutants(), those that there was no time or no answer for with the reason; `inputs` (with
// weights) and `want` are by rank. `resolved` is any rank's.
std::vector<TriedMutant> try_rank_mutants(const ResolvedCase& resolved,
                                          const std::vector<CaseValues>& inputs,
                                          const std::vector<CaseValues>& want, const AskRanks& ask,
                                          double seconds);

}  // namespace fk
