// SPDX-License-Identifier: Apache-2.0
// Rows of an evaluation from the documents of its jobs.
#pragma once
#include <string>
#include <vector>

#include "core/eval/evaluation.hpp"
#include "core/eval/job.hpp"
#include "core/eval/plan.hpp"

namespace fk {

// Why a job's document says nothing about the submission: the host or the baseline failed, so the
// job may be tried again. Empty: it is a result.
std::string no_result(const EvalJob& job, const Json& document);

// The cases of a verdict. `left_out` gets cases that a default verdict did not judge.
std::vector<EvalCase> case_rows(const EvalJob& job, const Json& document, const Catalog& catalog,
                                std::vector<NotRun>& left_out);
// `speed_judged` is set where the profile has a speed.
EvalModel model_row(const EvalJob& job, const PlannedModel& model, const Json& document,
                    bool& speed_judged);
// A model without an op of the submission.
EvalModel untouched_row(const PlannedModel& model, const std::string& profile);

}  // namespace fk
