// SPDX-License-Identifier: Apache-2.0
// Requests of a recording arrive as they did then, less the time in which no request is open. The
// first round is as recorded, and not measured.
#include "core/engines/workload.hpp"

namespace fk {

namespace {

int64_t read_replay(const WorkloadKeys& keys, Workload& workload) {
  workload.at_their_times = true;
  workload.warmup = 1;
  return keys.get("requests", 1, kMostRequests, kMostRequests);
}

FK_WORKLOAD_KIND(replay, {{"requests"}, read_replay});

}  // namespace

}  // namespace fk
