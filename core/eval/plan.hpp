// SPDX-License-Identifier: Apache-2.0
// The plan of an evaluation: all jobs of some submissions in a suite, with their estimated times.
// It also has the parts of the suite that the device cannot run. Nothing runs here.
#pragma once
#include <string>
#include <vector>

#include "core/eval/evaluation.hpp"
#include "core/eval/job.hpp"
#include "core/eval/submission.hpp"
#include "core/eval/suite.hpp"
#include "core/store/results.hpp"
#include "core/store/store.hpp"

namespace fk {

struct PlannedModel {
  std::filesystem::path file;
  std::string scenario, arch, family;
  std::vector<std::string> ops;  // at all levels
  int64_t weights_bytes = 0;
};

struct Plan {
  Suite suite;
  std::string suite_sha256;
  std::vector<Submission> submissions;
  std::vector<PlannedModel> models;
  std::vector<EvalJob> jobs;     // cheap ones first
  std::vector<NotRun> left_out;  // of the suite, for all submissions
  double estimate_s() const;     // of all jobs, one after the other
};

// Error when there is nothing to run on this device.
Plan make_plan(const Suite& suite, std::vector<Submission> submissions, const Catalog& catalog,
               const std::string& device, Store& store);
// Estimates from earlier jobs of the same length, where the folder has one.
void estimate_from(const std::vector<Json>& results, Plan& plan);

}  // namespace fk
