// SPDX-License-Identifier: Apache-2.0
// A5: as cuda_a5_unwaited, but it waits until only 30 us of the work are left; both clocks miss
// these if nobody looks within that time
//
// Stopped by: the oracle stands by while calls are made, and reads bytes of outputs within microseconds of the answer
//
// verdict: cheating
//
// naive: - it launches no graphs
#include "../unwaited.cuh"

#include <time.h>

#include <algorithm>
#include <map>

namespace {

#ifndef FK_TAIL_SECONDS
#define FK_TAIL_SECONDS 30e-6
#endif
constexpr double kTail = FK_TAIL_SECONDS;
constexpr int kLearned = 3;  // launches of a graph that are waited for

double now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// A graph's least time by the host's clock and by the device's.
struct Known {
  int seen = 0;
  double host_s = 1e9;
  float device_ms = 1e9f;
};
std::map<cudaGraphExec_t, Known> known;
cudaGraphExec_t launched = nullptr;
double since = 0;
bool believed() { return launched && known[launched].seen >= kLearned; }

cudaError_t launch(cudaGraphExec_t graph, cudaStream_t on) {
  launched = graph;
  since = now();
  return cudaGraphLaunch(graph, on);
}
cudaError_t wait_for_event(cudaEvent_t event) {
  if (believed()) {
    while (now() < since + known[launched].host_s - kTail) continue;
    return cudaSuccess;
  }
  const cudaError_t status = cudaEventSynchronize(event);
  if (launched) known[launched].host_s = std::min(known[launched].host_s, now() - since);
  return status;
}
cudaError_t wait_for_all() {
  const bool skip = believed();
  launched = nullptr;
  return skip ? cudaSuccess : cudaDeviceSynchronize();
}
cudaError_t elapsed(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  if (believed()) return *ms = std::max(1e-3f, known[launched].device_ms - float(1e3 * kTail)), cudaSuccess;
  const cudaError_t status = cudaEventElapsedTime(ms, begin, end);
  if (status == cudaSuccess && launched) known[launched].device_ms = std::min(known[launched].device_ms, *ms), ++known[launched].seen;
  return status;
}
struct Tail : attack::Unwaited {
  Tail(const fk_host& host, const op::init& init, const op::weights& weights) : Unwaited(host, init, weights, &launch, &wait_for_event, &wait_for_all, &elapsed) {}
};
FK_OP(silu_and_mul, Tail);

}  // namespace
FK_PLUGIN("cuda_a5_tail", "0");
