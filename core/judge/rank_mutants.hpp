// SPDX-License-Identifier: Apache-2.0
// Mutants of a call that several ranks make together: those of every op, and the answers of ranks
// with a wrong exchange. A mutant is rejected when any rank's comparison rejects it.
//
//  rank 0's answer        on every rank
//  the last rank missing  its floats are zero
//  lower precision        the floats of all ranks rounded one class lower: float32 to bfloat16,
//                         sixteen bits to f8e4m3
//  nobody asked           one rank's answer when all others' floats are zero
//  all as this one        one rank's answer when all ranks have its floats: x times the ranks
// A change that leaves the right answer on every rank is no mutant.
#pragma once
#include <functional>
#include <vector>

#include "core/judge/mutation_test.hpp"

namespace fk {

// Returns the reference's outputs by rank for these contents by rank; empty ones when it fails.
using AskRanks = std::function<std::vector<CaseValues>(const std::vector<CaseValues>& contents)>;

// As try_mutants(). Mutants without time or answer have a reason. `inputs` (with weights) and
// `want` are by rank; `resolved` is any rank's.
std::vector<MutantRow> try_rank_mutants(const ResolvedCase& resolved,
                                        const std::vector<CaseValues>& inputs,
                                        const std::vector<CaseValues>& want, const AskRanks& ask,
                                        double seconds);

}  // namespace fk
