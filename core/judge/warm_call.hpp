// SPDX-License-Identifier: Apache-2.0
// A model calls one instance for steps of all sizes. An instance may compute something for the
// first size and keep it wrongly. So instances of a case with hidden rows make a smaller step
// first. Its answer is not compared.
#pragma once
#include <memory>

#include "core/cases/case_frames.hpp"
#include "core/judge/plan/asked_case.hpp"

namespace fk {

// The first step's frames with contents of their own. `hidden` is the case with hidden rows. Null
// when it has no smaller step, or when its contents would take long.
std::unique_ptr<CaseFrames> first_step(Device& device, const ResolvedCase& hidden,
                                       const PosedCase& posed, uint64_t draw);

}  // namespace fk
