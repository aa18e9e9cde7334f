// SPDX-License-Identifier: Apache-2.0
// The inputs of a case, moved by rounding: comparison.hpp asks the reference for their answers.
#pragma once
#include <vector>

#include "core/cases/inputs.hpp"

namespace fk {

// Elements and rows of float inputs move at random by up to probe_size() of their value. Integers
// and constants stay, and so do values of a range which an op chooses from.
CaseValues moved_inputs(const ResolvedCase& resolved, const CaseValues& inputs, uint64_t seed);

// Moves the inputs of all ranks but resolved.rank by rounding, for AskReference::Moved. Each rank
// has its own moves; shared contents move alike.
void move_others(const ResolvedCase& resolved, uint64_t seed, std::vector<CaseValues>& ranks);

}  // namespace fk
