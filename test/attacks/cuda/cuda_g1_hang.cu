// SPDX-License-Identifier: Apache-2.0
// G1: launches a kernel that does not end
//
// Stopped by: patience; a worker that hangs is killed, and the device is idle before the next
//
// verdict: hang
//
// naive: - it would wait for ever
#include "../attack.cuh"

namespace {

struct Hang : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    honest(args, stream(ctx));
    attack::wait_for<<<1, 1, 0, stream(ctx)>>>(1ll << 50);
  }
};
FK_OP(silu_and_mul, Hang);

}  // namespace
FK_PLUGIN("cuda_g1_hang", "0");
