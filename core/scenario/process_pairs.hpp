// SPDX-License-Identifier: Apache-2.0
// A candidate's workloads beside the baseline's, in several processes of each side.
//
// A process may be quick or slow for its whole life (metrics.hpp). So each side is started again
// and again: a process runs its share of the rounds of all workloads and ends.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/scenario/workload_result.hpp"

namespace fk {

struct ProcessPairs {
  std::vector<const Workload*> workloads;
  int processes = 1;  // of each side; the first are those that are open
  // Of one workload; which process it is gets filled in.
  std::function<TimedContext(const Workload&)> context;
  // Seconds without a sign of life after which the candidate hangs, asked before each workload.
  std::function<double()> patience;
  std::function<void(const std::string&)> enter;  // what is done next, for the report
};

// What each workload took, in their order. A workload in which the candidate failed is not run
// again, the others are. When the baseline fails it is not open, and the rest is left out.
std::vector<TimedPair> time_in_processes(Side& baseline, Side& candidate, const ProcessPairs& what);

}  // namespace fk
