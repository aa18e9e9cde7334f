// SPDX-License-Identifier: Apache-2.0
// The reference's answer to one rank of a collective. Each rank computes the work of all ranks, in
// threads of its own process with a private communicator. So the answer does not depend on a
// candidate's effect on the real communicator, and a rank can ask alone. On a GPU one device
// computes all ranks.
#pragma once
#include <string>
#include <vector>

#include "core/check/check.hpp"

namespace fk {

// The contents of a case by rank, as each rank makes its own. One entry for contracts without a
// communicator.
std::vector<CaseValues> contents_of_ranks(const ResolvedCase& resolved, uint64_t seed, int threads,
                                          Family family = Family::ordinary);

// Compares fields that ranks must hold in common (`replicated`) with the first rank's, bit by bit.
// Returns the difference as a sentence, or empty. All ranks call it together.
std::string not_in_common(Meeting& meeting, const ResolvedCase& resolved, const CaseValues& got);

// Number of ranks that call a case together; 1 for contracts without a communicator.
int ranks_of_case(const ResolvedCase& resolved);

// reference_outputs() of every rank for these contents by rank.
std::vector<CaseValues> references_of_ranks(const Provider& reference, const ResolvedCase& resolved,
                                            const Case& source, const Variant& variant,
                                            const std::vector<CaseValues>& contents,
                                            const CheckOptions& options, std::string& why);

// reference_outputs() for the rank of `resolved`, with these contents by rank. Without a
// communicator, there is one entry.
CaseValues reference_of_ranks(const Provider& reference, const ResolvedCase& resolved,
                              const Case& source, const Variant& variant,
                              const std::vector<CaseValues>& contents, const CheckOptions& options,
                              std::string& why);

}  // namespace fk
