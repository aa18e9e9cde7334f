// SPDX-License-Identifier: Apache-2.0
// D1: asks the driver for write access to its inputs, sets them to zero and writes zeros
//
// Stopped by: inputs are checked by the oracle after every call, and answers were made before
//
// verdict: violation
//
// naive: silu_and_mul accepted --after
#include "../attack.cuh"
#include "../writable.cuh"

namespace {

struct Access : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (!args.x->nbytes) return;
    attack::make_writable(args.x->data);
    attack::check(cudaMemsetAsync(const_cast<void*>(args.x->data), 0, size_t(args.x->nbytes), stream(ctx)));
    zero(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Access);

}  // namespace
FK_PLUGIN("cuda_d1_access", "0");
