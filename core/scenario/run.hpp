// SPDX-License-Identifier: Apache-2.0
// Runs a whole scenario: the oracle, the baseline, and one candidate after the other. Correctness
// comes first, then timed workloads in which baseline and candidate alternate.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/check/plugin_set.hpp"
#include "core/engines/scenario.hpp"
#include "core/exec/ranking.hpp"
#include "core/judge/device_lock.hpp"
#include "core/scenario/run_report.hpp"

namespace fk {

struct RunOptions {
  uint64_t requests_seed = 0;  // seed of the requests; candidates must not know it beforehand
  std::string device = "cpu";
  std::vector<std::string> candidates;  // empty: all
  std::string together;  // all of them are one side of this name; empty: each is a side
  std::vector<std::string> workloads;  // empty: the scenario's
  double time_limit_s = 0;             // of one workload with one candidate; 0: none
  int processes = 0;                   // timed processes of each side; 0: see timed_processes()
  bool sandbox = true;                 // for candidates
  bool graphs = true;                  // CUDA graphs where the device has them
  double patience_s = 0;               // 0: derived from the baseline's pace
  bool exact_pages = false;  // uses the scenario's number of pages, even without memory for them
  bool pictures = false;     // the report gets images of answers
  std::function<void(const std::string&)> progress;

  bool wants(const FoundPlugin& candidate) const {
    return candidates.empty() ||
           std::count(candidates.begin(), candidates.end(), plugin_name(candidate));
  }
};

// `text` is OP=PLUGIN: this baseline must run the op. Error when there is no such op or baseline.
void pin(Scenario& scenario, const std::string& text, const Catalog& catalog,
         const PluginSet& plugin_set);
// Error when the caches cannot hold the longest request, or when a device with the host's memory
// cannot hold the run or would take hours. Call it before the work: it computes sizes only.
void need_room(const Scenario& scenario, const RunOptions& options, const Catalog& catalog);
// Error when the scenario or the options are wrong, or when no oracle or baseline can judge.
void check_run(const Scenario& scenario, const RunOptions& options, const PluginSet& plugin_set);

// Candidates that stand in the model at the same time.
struct CandidateGroup {
  std::string name, refused;                // why it is not judged; empty: it is
  std::vector<const FoundPlugin*> plugins;  // at least one
  SideReport report() const;                // before it is opened
};
// The wanted candidates, each in a group of its own. With RunOptions::together, one group has all
// usable candidates, and `left_out` gets the others.
std::vector<CandidateGroup> candidate_groups(const PluginSet& plugin_set, const RunOptions& options,
                                             Unusable& left_out);

// Locks this machine's devices of all ranks and of the oracle. The lock begins before the weights
// are made: weights and answers disturb other jobs as much as timed work does.
DeviceLock devices_of_run(const Scenario& scenario, const RunOptions& options);

// Workloads with these names in the scenario's order; without names all.
std::vector<const Workload*> wanted_workloads(const Scenario& scenario,
                                              const std::vector<std::string>& names);
// Timed processes of each side: one where speed is not judged.
int timed_processes(const Scenario& scenario, const RunOptions& options);
// For the report: if NCCL may use NVLink multicast. Empty: one rank, or no GPUs.
std::string nccl_setting(int64_t ranks, const std::string& device);
// The origin of the order in which a baseline asks its providers, and the names in the ranking of
// these ops which no baseline has. `pins`: providers which the scenario or the command line names.
std::string order_text(const std::map<std::string, std::string>& pins, const Ranking& ranking,
                       const std::vector<OpRow>& ops, const std::vector<std::string>& baselines);
// Tokens of the longest request: prompt and answer.
int64_t longest_request(const std::vector<Request>& correctness,
                        const std::vector<const Workload*>& workloads);

// Errors of check_run() are thrown. Workers' failures are in the report.
RunReport run_scenario(const Scenario& scenario, const RunOptions& options, const Catalog& catalog,
                       const PluginSet& plugin_set);

// Example: "87.0 GiB for weights and 16.0 GiB for caches in bf16".
std::string full_profile_needs(const Scenario& full, const Catalog& catalog);

}  // namespace fk
