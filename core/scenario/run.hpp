// SPDX-License-Identifier: Apache-2.0
// A scenario from end to end: oracle, baseline, one candidate after the other; correctness first,
// then timed workloads in which baseline and candidate alternate.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/check/plugin_set.hpp"
#include "core/engines/scenario.hpp"
#include "core/judge/device_lock.hpp"
#include "core/scenario/run_report.hpp"

namespace fk {

struct RunOptions {
  uint64_t requests_seed = 0;  // what is asked: who is judged must not know it beforehand
  std::string device = "cpu";
  std::vector<std::string> candidates;  // empty: all that there are
  std::vector<std::string> workloads;   // empty: those of the scenario
  double time_limit_s = 0;              // of one workload with one candidate; 0: none
  int processes = 0;                    // of each side that are timed; 0: timed_processes() says
  bool sandbox = true;                  // of candidates
  bool graphs = true;                   // CUDA graphs where the device has them
  double patience_s = 0;                // 0: derived from the baseline's pace
  bool exact_pages = false;             // as the scenario has them, whether there is room or not
  std::function<void(const std::string&)> progress;

  bool wants(const FoundPlugin& candidate) const {
    return candidates.empty() ||
           std::count(candidates.begin(), candidates.end(), plugin_name(candidate));
  }
};

// `text` is OP=PLUGIN: the baseline that has to run an op. Error where there is no such op or
// baseline.
void pin(Scenario& scenario, const std::string& text, const Catalog& catalog,
         const PluginSet& plugin_set);
// Error where the scenario or the options are wrong, or there is nobody to judge with.
void check_run(const Scenario& scenario, const RunOptions& options, const PluginSet& plugin_set);

// On this machine's devices of all ranks and of the oracle, from the weights on: who makes them or
// computes answers on a device is as much in the way of others there as who is timed.
DeviceLock devices_of_run(const Scenario& scenario, const RunOptions& options);

// Those of these names, in the order of the scenario; all without names.
std::vector<const Workload*> wanted_workloads(const Scenario& scenario,
                                              const std::vector<std::string>& names);
// Processes of each side that are timed: one where speed is not judged.
int timed_processes(const Scenario& scenario, const RunOptions& options);
// Tokens of the longest request, prompt and answer.
int64_t longest_request(const std::vector<Request>& correctness,
                        const std::vector<const Workload*>& workloads);

// Errors of check_run() are thrown; what runners do is in the report.
RunReport run_scenario(const Scenario& scenario, const RunOptions& options, const Catalog& catalog,
                       const PluginSet& plugin_set);

// "87.0 GiB for weights and 16.0 GiB for caches in bf16".
std::string full_profile_needs(const Scenario& full, const Catalog& catalog);

}  // namespace fk
