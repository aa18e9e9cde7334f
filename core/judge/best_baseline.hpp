// SPDX-License-Identifier: Apache-2.0
// Whom a candidate has to beat.
#pragma once
#include <memory>

#include "core/check/plugin_set.hpp"
#include "core/judge/case_run.hpp"

namespace fk {

// The best baseline that takes the case and is right in it, sitting; null when there is none. The
// first that the device's ranking names for the op, which is `contract`'s, and such sizes; where it
// names none, the quickest of those that are right, which the room remembers. An oracle where
// nobody else takes it. Who fails on the way (its process ends, an error, a wrong answer) is left
// out, named in the row's passed_over, and so is who is there already. Error when their process
// cannot be started again.
std::unique_ptr<CandidateClient> best_baseline(CaseRun& case_run, const Contract& contract,
                                               CaseVerdict& row, JudgePool& room,
                                               const PluginSet& plugin_set);

// The same of one that has failed since. Where its process has ended the others get another one.
void pass_over(CandidateClient& baseline, const std::string& why, CaseVerdict& row,
               JudgePool& room);

}  // namespace fk
