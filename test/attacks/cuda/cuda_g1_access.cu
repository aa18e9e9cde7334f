// SPDX-License-Identifier: Apache-2.0
// G1: reads an address that nobody has, and leaves the device's context broken
//
// Stopped by: a sticky error ends the worker, not the judge
//
// verdict: illegal_access
//
// naive: - it would end as well
#include "../attack.cuh"

namespace {

struct Access : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (count(args)) attack::silu<<<1, 32, 0, stream(ctx)>>>(reinterpret_cast<const float*>(16), static_cast<float*>(args.out->data), 32, width);
  }
};
FK_OP(silu_and_mul, Access);

}  // namespace
FK_PLUGIN("cuda_g1_access", "0");
