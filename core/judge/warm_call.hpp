// SPDX-License-Identifier: Apache-2.0
// A model calls one instance for steps of all sizes, and what depends on a size may be made in the
// first one and kept. So the instances of a case with hidden rows have had a step with fewer rows
// before those that are judged. Nobody looks at its answer.
#pragma once
#include <memory>

#include "core/cases/case_frames.hpp"
#include "core/judge/plan/asked_case.hpp"

namespace fk {

// That step, with contents of its own; `drawn` is the case with hidden rows. Null where it is no
// smaller one, or where its contents would take long.
std::unique_ptr<CaseFrames> first_step(Device& device, const ResolvedCase& hidden,
                                       const PosedCase& posed, uint64_t draw);

}  // namespace fk
