// SPDX-License-Identifier: Apache-2.0
// What a run leaves that was stopped in the middle, and whether reset() makes up for it, as the
// runtime asks of it before the next run.
#pragma once
#include "core/check/conformance.hpp"

namespace fk {

// Rule `reset`: after a call of which half did not happen - every other word of persistent memory
// that calls change is as it was before - after a plan() without its call and a capture that was
// thrown away, each where there is such a thing, and then reset(), a call gives something else.
// What calls do not change in persistent memory, as tables that prepare() has made, is left alone.
// State that a call puts back before it ends (a semaphore that is zero again) is not seen here.
ConformanceFault after_aborted_run(const ConformanceCase& c, const CaseValues& answer,
                                   const ConformanceCall& call, const ConformanceDiffer& differ);

}  // namespace fk
