// SPDX-License-Identifier: Apache-2.0
// Workloads of candidate and baseline, in several processes of each side.
//
// A process may be fast or slow for its whole life (metrics.hpp). So each side is restarted several
// times. A process runs its share of the rounds of all workloads, and ends.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/scenario/workload_result.hpp"

namespace fk {

struct ProcessPairs {
  std::vector<const Workload*> workloads;
  int processes = 1;  // of each side; open sides are the first ones
  // Context of a workload. The number of the process is filled in.
  std::function<TimedContext(const Workload&)> context;
  // Seconds without a sign of life until the candidate hangs. Called before each workload.
  std::function<double()> patience;
  std::function<void(const std::string&)> enter;  // gets the name of the next step, for the report
};

// Times of each workload, in order. A workload in which the candidate failed is not repeated; the
// others continue. After a failure of the baseline, the baseline is closed and the rest is left
// out.
std::vector<TimedPair> time_in_processes(Side& baseline, Side& candidate, const ProcessPairs& what);

}  // namespace fk
