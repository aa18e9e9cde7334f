// SPDX-License-Identifier: Apache-2.0
// What lies in caches and states where a call does not read: what earlier requests have left there,
// or whatever the memory held before.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// Whether a field is pages that a table names, or slots of states that requests name.
bool has_unread(const ResolvedCase& resolved, const CaseField& field);

// NaN and infinities where no request leads, and in the state of a request that begins without one;
// large numbers in pages that requests have, behind what is there of them (docs/numerics.md).
void spoil_unread(const ResolvedCase& resolved, uint64_t seed, CaseValues& values);

}  // namespace fk
