// SPDX-License-Identifier: Apache-2.0
#include "core/scenario/process_pairs.hpp"

#include <algorithm>

namespace fk {

namespace {

// Restarts the processes of both sides. The candidate ends first and begins last, because it uses
// the baseline's caches. False when the baseline failed. The candidate may be closed afterwards:
// its failure is in `timed`, for all workloads in which it had not failed yet.
bool restart(Side& baseline, Side& candidate, std::vector<TimedPair>& timed) {
  const bool well = candidate.close();
  if (!baseline.close() || !baseline.open()) return false;
  if (well && candidate.open()) return true;
  for (TimedPair& pair : timed)
    if (pair.candidate.why.empty()) pair.candidate.why = candidate.why();
  return true;
}

}  // namespace

std::vector<TimedPair> time_in_processes(Side& baseline, Side& candidate,
                                         const ProcessPairs& what) {
  std::vector<TimedPair> timed(what.workloads.size());
  const auto failed = [](const TimedPair& pair) { return !pair.candidate.why.empty(); };
  for (int process = 0; process < what.processes; ++process) {
    if (std::ranges::all_of(timed, failed)) break;
    if (process > 0) {
      what.enter("both sides are started again");
      if (!restart(baseline, candidate, timed)) return timed;
    }
    for (size_t w = 0; w < timed.size(); ++w) {
      if (failed(timed[w])) continue;
      what.enter(what.workloads[w]->name);
      candidate.set_patience(what.patience());
      if (!candidate.is_open() && !candidate.open()) {
        timed[w].candidate.why = "it could not be started again: " + candidate.why();
        continue;
      }
      TimedContext context = what.context(*what.workloads[w]);
      context.process = process;
      if (!time_pair(baseline, candidate, context, timed[w])) return timed;
    }
  }
  return timed;
}

}  // namespace fk
