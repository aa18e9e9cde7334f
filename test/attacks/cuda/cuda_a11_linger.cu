// SPDX-License-Identifier: Apache-2.0
// A11: leaves a kernel behind that keeps half of the device busy for a second, whoever is next
//
// Stopped by: after a call the device must be idle; sides run in processes of their own
//
// verdict: slower
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

struct Linger : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    static cudaStream_t own = nullptr;
    if (!own) {
      attack::check(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
      attack::wait_for<<<66, 1024, 0, own>>>(1700000000ll);
    }
    dawdle(stream(ctx));
    honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Linger);

}  // namespace
FK_PLUGIN("cuda_a11_linger", "0");
