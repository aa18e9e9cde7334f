// SPDX-License-Identifier: Apache-2.0
// D1: sets its input to zero on the device and writes zeros
//
// Stopped by: inputs are mapped read only, kept and checked by the oracle
//
// verdict: violation
//
// naive: silu_and_mul accepted --after
#include "../attack.cuh"

namespace {

struct Inputs : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (args.x->nbytes) attack::check(cudaMemsetAsync(const_cast<void*>(args.x->data), 0, size_t(args.x->nbytes), stream(ctx)));
    zero(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Inputs);

}  // namespace
FK_PLUGIN("cuda_d1_inputs", "0");
