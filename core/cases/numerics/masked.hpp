// SPDX-License-Identifier: Apache-2.0
// Logits after a grammar, a ban or a mask of experts: the input of samplers and routers.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// True when an L1 op chooses from the field's rows of logits, or tells their probabilities.
bool may_mask(const ResolvedCase& resolved, const CaseField& field);

// Some logits of each row become -inf; the op can still choose as many as it has to. For a softmax
// some rows also lie far below 0. There a running maximum with a finite start exceeds all of them.
void mask_logits(const ResolvedCase& resolved, uint64_t seed, CaseValues& values);

}  // namespace fk
