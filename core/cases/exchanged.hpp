// SPDX-License-Identifier: Apache-2.0
// Whole numbers with two exchanged values: a candidate that checks only some positions takes them
// for earlier inputs.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// True if a field's numbers may be exchanged, because no other field depends on their order.
bool may_exchange(const ResolvedCase& resolved, const CaseField& field);

// Exchanges two numbers of every such field, within a row if it has several.
void exchange_numbers(const ResolvedCase& resolved, uint64_t seed, CaseValues& values);

}  // namespace fk
