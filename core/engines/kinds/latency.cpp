// SPDX-License-Identifier: Apache-2.0
// `batch` requests at a time; the next batch follows the last one. There are `warmup` unmeasured
// rounds and `iterations` measured ones.
#include "core/engines/workload.hpp"

namespace fk {

namespace {

int64_t read_latency(const WorkloadKeys& keys, Workload& workload) {
  workload.together = true;
  workload.warmup = keys.get("warmup", 0, kMostRequests, 0);
  workload.iterations = keys.get("iterations", 1, kMostRequests);
  return keys.get("batch", 1, kMostRequests);
}

FK_WORKLOAD_KIND(latency, {{"batch", "warmup", "iterations"}, read_latency});

}  // namespace

}  // namespace fk
