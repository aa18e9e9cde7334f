// SPDX-License-Identifier: Apache-2.0
// The choice of the baseline that a candidate must beat.
#pragma once
#include <memory>

#include "core/check/plugin_set.hpp"
#include "core/judge/case_run.hpp"

namespace fk {

// Returns the best baseline that takes the case and answers it rightly, with the case begun; null:
// there is none. The device's ranking for the op of `contract` and these sizes comes first. Without
// a ranking the fastest right baseline counts; the pool remembers it. An oracle is the baseline
// only where no other provider takes the case. A candidate that is a baseline itself never races
// its own file. A rival in `plugin_set` is the only choice. A
// provider that fails on the way (process, error, wrong answer) goes into the row's passed_over;
// providers in passed_over are not asked. Error when their process cannot be started again.
std::unique_ptr<CandidateClient> best_baseline(CaseRun& case_run, const Contract& contract,
                                               CaseVerdict& row, JudgePool& room,
                                               const PluginSet& plugin_set);

// Puts a baseline that failed after its choice into passed_over. If its process has ended, the
// other baselines get a new process.
void pass_over(CandidateClient& baseline, const std::string& why, CaseVerdict& row,
               JudgePool& room);

}  // namespace fk
