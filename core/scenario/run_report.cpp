// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/run_report.hpp"

#include <algorithm>

#include "core/base/clock.hpp"
#include "core/base/machine.hpp"

namespace fk {

void RunReport::describe(const Scenario& of) {
  scenario = of.name;
  summary = of.summary;
  arch = of.arch;
  profile = of.profile;
  parallel = of.limits.parallel;
  max_batch = of.limits.max_batch;
  pages = of.limits.pages;
  dtype = name(of.limits.dtype);
  host = processor_name();
  host_build = own_build_id();
  date = now_text();
  seed = of.seed;
  metric = of.info.correctness;
  layers = layer_count(with_defaults(of.arch, of.config));
  speed_judged = judges_speed(of);
}

void SideReport::reject(WorkloadRow& row, bool violation) {
  row.verdict = row.done ? "wrong" : "failed";
  if (verdict == "correct" || !row.done) verdict = violation ? "violation" : row.verdict;
  if (why.empty()) why = row.workload + ": " + row.why;
}

void SideReport::keep(const WorkloadRow& row) {
  const auto it = std::ranges::find(workloads, row.workload, &WorkloadRow::workload);
  if (it == workloads.end())
    workloads.push_back(row);
  else if (!it->done || it->rounds < row.rounds)
    *it = row;
}

int RunReport::exit_code() const {
  if (!error.empty() && !spoiled) return 3;
  for (const auto& candidate : candidates)
    if (candidate.verdict != "correct" && candidate.verdict != "unused") return 1;
  return 0;
}

}  // namespace fk
