// SPDX-License-Identifier: Apache-2.0
// All requests of a workload arrive at the start.
#include "core/engines/workload.hpp"

namespace fk {

namespace {

int64_t read_throughput(const WorkloadKeys& keys, Workload&) {
  return keys.get("requests", 1, kMostRequests);
}

FK_WORKLOAD_KIND(throughput, {{"requests"}, read_throughput});

}  // namespace

}  // namespace fk
