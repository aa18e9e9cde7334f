// SPDX-License-Identifier: Apache-2.0
// A contract beyond its grammar: its cases must be calls that can be made. A mistake is found
// before a plugin runs, so that no plugin is blamed for it.
#pragma once
#include "core/contract/contract.hpp"

namespace fk {

// Error with the case's file and line when its axes, values, shapes or costs contradict each other.
// With `contents`, also when the generators of a smoke case cannot make its inputs.
void need_sound_cases(const Contract& contract, bool contents);

}  // namespace fk
