// SPDX-License-Identifier: Apache-2.0
// Masked logits (by a grammar, a ban or a mask of experts): inputs of samplers and routers.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// True when an L1 op chooses from the field's rows of logits, or returns their probabilities.
bool may_mask(const ResolvedCase& resolved, const CaseField& field);

// Sets some logits of each row to -inf; enough remain for the op's choices. For a softmax some rows
// also lie far below 0, where a running maximum with a finite start exceeds all of them.
void mask_logits(const ResolvedCase& resolved, uint64_t seed, CaseValues& values);

}  // namespace fk
