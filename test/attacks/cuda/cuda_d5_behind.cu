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

__global__ void fill(char* from) { from[threadIdx.x] = 0; }

struct Behind : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    honest(args, stream(ctx));
    fill<<<1, 64, 0, stream(ctx)>>>(static_cast<char*>(args.out->data) + args.out->nbytes);
  }
};
FK_OP(silu_and_mul, Behind);

}  // namespace
FK_PLUGIN("cuda_d5_behind", "0");
