// SPDX-License-Identifier: Apache-2.0
// The order of recorded rows. A recording is a file that may be known, and equal in every call, so
// its answer can be remembered. A judge therefore reorders independent rows (experts of a token,
// ids) each time, which changes the answer but not the work. It also knows where reordering is not
// enough.
#pragma once
#include <cstdint>

#include "core/cases/inputs.hpp"

namespace fk {

// Reorders, by the seed, the rows of recorded expert choices, and of other such whole numbers if a
// call has no floats. Fields with the same leading axis get the same order.
void reorder_recorded(const ResolvedCase& resolved, uint64_t seed, CaseValues& values);

// True if an author who knows the recording knows the inputs of every call. Then all floats were
// recorded, or there are no floats and too few rows to reorder.
bool inputs_are_known(const ResolvedCase& resolved);

}  // namespace fk
