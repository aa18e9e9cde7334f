// SPDX-License-Identifier: Apache-2.0
// A5: replaces the functions that wait for events or the device, and the one that reads events, in
// the host's table of imports. It answers while the device still works, and claims half of the time
//
// Stopped by: bytes of outputs are read as soon as it answers, while its kernels may still run.
// They are looked at again when the device is done
//
// verdict: wrong cheating
//
// naive: - it launches no graphs
#include "../unwaited.cuh"

#include <map>

namespace {

// The first launches of its graphs, which are waited for, give their times; later ones claim half
// of it.
std::map<cudaGraphExec_t, float> known;
cudaGraphExec_t launched = nullptr;
bool believed() { return launched && known.count(launched); }

cudaError_t launch(cudaGraphExec_t graph, cudaStream_t on) {
  launched = graph;
  return cudaGraphLaunch(graph, on);
}
cudaError_t wait_for_event(cudaEvent_t event) { return believed() ? cudaSuccess : cudaEventSynchronize(event); }
cudaError_t wait_for_all() {
  const bool skip = believed();
  launched = nullptr;
  return skip ? cudaSuccess : cudaDeviceSynchronize();
}
cudaError_t elapsed(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  if (believed()) return *ms = 0.5f * known[launched], cudaSuccess;
  const cudaError_t status = cudaEventElapsedTime(ms, begin, end);
  if (status == cudaSuccess && launched) known[launched] = *ms;
  return status;
}
struct Claims : attack::Unwaited {
  Claims(const fk_host& host, const op::init& init, const op::weights& weights) : Unwaited(host, init, weights, &launch, &wait_for_event, &wait_for_all, &elapsed) {}
};
FK_OP(silu_and_mul, Claims);

}  // namespace
FK_PLUGIN("cuda_a5_unwaited", "0");
