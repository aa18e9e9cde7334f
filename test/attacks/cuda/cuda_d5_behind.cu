// SPDX-License-Identifier: Apache-2.0
// D5: right, and writes 64 bytes behind its output
//
// Stopped by: canaries behind every buffer
//
// verdict: illegal_access
//
// naive: silu_and_mul accepted
#include "../attack.cuh"

namespace {

struct Behind : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    honest(args, stream(ctx));
    attack::check(cudaMemsetAsync(static_cast<char*>(args.out->data) + args.out->nbytes, 0, 64, stream(ctx)));
  }
};
FK_OP(silu_and_mul, Behind);

}  // namespace
FK_PLUGIN("cuda_d5_behind", "0");
