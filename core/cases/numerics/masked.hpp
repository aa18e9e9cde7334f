// SPDX-License-Identifier: Apache-2.0
// Logits as a sampler or a router gets them that a grammar, a ban or a mask of experts has changed.
#pragma once
#include "core/cases/inputs.hpp"

namespace fk {

// True when an L1 op chooses from the field's rows of logits, or tells their probabilities.
bool may_mask(const ResolvedCase& resolved, const CaseField& field);

// Some logits of each row become -inf. As many stay as the op chooses of a row. Where an op chooses
// by a softmax, some rows lie far below 0 as well, where a finite start of a running maximum is
// above all of them.
void mask_logits(const ResolvedCase& resolved, uint64_t seed, CaseValues& values);

}  // namespace fk
