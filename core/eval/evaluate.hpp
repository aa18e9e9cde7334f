// SPDX-License-Identifier: Apache-2.0
// Runs a plan: jobs without a stored result, one after the other on each device. Every result is
// kept as it ends, so a second call continues behind the first. Processes on several machines may
// each run a part of a plan in one shared folder.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/eval/evaluation.hpp"
#include "core/eval/plan.hpp"
#include "core/store/results.hpp"

namespace fk {

// Every `count`-th job of a plan, from job number `index` (1 to count) on.
struct PlanPart {
  int64_t index = 1, count = 1;
  bool has(size_t job) const { return static_cast<int64_t>(job) % count == index - 1; }
};
// Error when `text` is not "INDEX/COUNT".
PlanPart plan_part(const std::string& text);

struct EvaluateOptions {
  std::vector<std::string> devices;  // of one kind; a job runs on any of them
  double time_limit_s = 0;           // no job begins later, or is estimated to end later; 0: none
  // A job that ended: "done", "stored", or why it has no result.
  std::function<void(const EvalJob& job, const std::string& end, double seconds)> on_end;
  std::function<void(const EvalJob& job)> on_begin;
};

// One evaluation for each submission, in order. `store` signs them; they are written to
// <folder>/evaluations/<submission>.<id>.json where they are complete. HostError when a result
// cannot be kept.
std::vector<Evaluation> evaluate(const Plan& plan, const EvaluateOptions& options,
                                 const Catalog& catalog, ResultFolder& folder, Store& store);

// The jobs of one part. The folder is shared. Returns the number of its jobs without a result.
size_t evaluate_part(const Plan& plan, const PlanPart& part, const EvaluateOptions& options,
                     const Catalog& catalog, ResultFolder& folder);

// The evaluations below these folders, with the reason where one cannot be used.
struct FoundEvaluation {
  std::filesystem::path file;
  Evaluation evaluation;
  std::string unverified, error;
};
std::vector<FoundEvaluation> find_evaluations(const std::vector<std::filesystem::path>& folders);

// <data>/evaluations, with a folder for each suite.
std::filesystem::path evaluations_dir();

}  // namespace fk
