// SPDX-License-Identifier: Apache-2.0
// What was recorded is a file that may be known, and the same in every call: an answer to it can be
// remembered. So a judge gives rows that stand for themselves (the experts of a token, ids) in
// another order each time, which changes the answer and not the work, and knows where that is not
// enough.
#pragma once
#include <cstdint>

#include "core/cases/inputs.hpp"

namespace fk {

// Recorded choices of experts, and other such whole numbers where a call has no floats, with their
// rows in an order of the seed's; those with the same leading axis in the same order.
void reorder_recorded(const ResolvedCase& resolved, uint64_t seed, CaseValues& values);

// Whether who knows the recording knows the inputs of every call all the same: all floats were
// recorded, or there are none and rows that can be reordered are too few.
bool inputs_are_known(const ResolvedCase& resolved);

}  // namespace fk
