// SPDX-License-Identifier: Apache-2.0
// Contents of caches and states that a call does not read: data of earlier requests, or undefined
// memory.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// True for a field of pages named by a table, or of state slots named by requests.
bool has_unread(const ResolvedCase& resolved, const CaseField& field);

// Writes NaN and infinities to pages and slots of no request, and to the state of a request that
// begins without one. Writes large numbers to the unused end of requests' pages (docs/numerics.md).
void spoil_unread(const ResolvedCase& resolved, uint64_t seed, CaseValues& values);

}  // namespace fk
