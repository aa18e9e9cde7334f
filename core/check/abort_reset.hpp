// SPDX-License-Identifier: Apache-2.0
// Tests that reset() repairs the state after an aborted run. The runtime calls reset() before the
// next run.
#pragma once
#include "core/check/conformance.hpp"

namespace fk {

// Rule `reset`: a call gives another result after an aborted run and reset(). The aborted run has
// three parts, as far as the op has them: a half-done call, a plan() without its call, and a
// discarded capture. For the half-done call, every other word of persistent memory that calls
// change gets its old value back. Words that calls never change, such as tables of prepare(), stay
// untouched. A state that each call restores before its end (a semaphore back at zero) is not
// tested.
ConformanceFault after_aborted_run(const ConformanceCase& c, const CaseValues& answer,
                                   const ConformanceCall& call, const ConformanceDiffer& differ);

}  // namespace fk
