// SPDX-License-Identifier: Apache-2.0
// The reference's answer to one rank of a collective. Every rank computes what all of them do, with
// threads of its own process and a communicator that only those have: the answer does not depend on
// what a candidate does to the real one, and a rank may ask when no other one does. On a GPU one
// device computes what all ranks do.
#pragma once
#include <string>
#include <vector>

#include "core/check/check.hpp"

namespace fk {

// The contents of a case by rank, each as that rank makes its own; one entry where the contract has
// no communicator.
std::vector<CaseValues> contents_of_ranks(const ResolvedCase& resolved, uint64_t seed, int threads,
                                          Family family = Family::ordinary);

// What a rank has written and the contract has ranks hold in common (`replicated`) but is not, bit
// by bit, what the first rank has: a sentence, or empty. All ranks call it together.
std::string not_in_common(Meeting& meeting, const ResolvedCase& resolved, const CaseValues& got);

// How many ranks call a case together; 1 where the contract has no communicator.
int ranks_of_case(const ResolvedCase& resolved);

// reference_outputs() of every rank where they have these contents.
std::vector<CaseValues> references_of_ranks(const Provider& reference, const ResolvedCase& resolved,
                                            const Case& source, const Variant& variant,
                                            const std::vector<CaseValues>& contents,
                                            const CheckOptions& options, std::string& why);

// reference_outputs() of the rank of `resolved` where the others have these contents. Without a
// communicator that is reference_outputs() of the only entry.
CaseValues reference_of_ranks(const Provider& reference, const ResolvedCase& resolved,
                              const Case& source, const Variant& variant,
                              const std::vector<CaseValues>& contents, const CheckOptions& options,
                              std::string& why);

}  // namespace fk
