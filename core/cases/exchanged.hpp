// SPDX-License-Identifier: Apache-2.0
// Whole numbers that are others in two places only: who knows its inputs by some places takes them
// for those that they were.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// Whether a field's numbers may change places, which other fields do not depend on.
bool may_exchange(const ResolvedCase& resolved, const CaseField& field);

// Of every such field two numbers, of a row where there are several.
void exchange_numbers(const ResolvedCase& resolved, uint64_t seed, CaseValues& values);

}  // namespace fk
