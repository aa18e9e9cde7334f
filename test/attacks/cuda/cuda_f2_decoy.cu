// SPDX-License-Identifier: Apache-2.0
// F2: has a kernel that would be right, and launches it with no work; the output is a copy
//
// Stopped by: every output is compared
//
// verdict: wrong
//
// naive: silu_and_mul accepted --scale=0.002
#include "../attack.cuh"

namespace {

struct Decoy : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (!count(args)) return;
    attack::silu<<<1, 32, 0, stream(ctx)>>>(static_cast<const float*>(args.x->data), static_cast<float*>(args.out->data), 0, width);
    attack::check(cudaMemcpyAsync(args.out->data, args.x->data, size_t(args.out->nbytes), cudaMemcpyDeviceToDevice, stream(ctx)));
  }
};
FK_OP(silu_and_mul, Decoy);

}  // namespace
FK_PLUGIN("cuda_f2_decoy", "0");
