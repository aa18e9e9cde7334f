// SPDX-License-Identifier: Apache-2.0
// C1: writes zeros
//
// Stopped by: mutants test every case; errors are shares of the spread
//
// verdict: wrong
//
// naive: silu_and_mul accepted --scale=0.05
#include "../attack.cuh"

namespace {

struct Zeros : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) { zero(args, stream(ctx)); }
};
FK_OP(silu_and_mul, Zeros);

}  // namespace
FK_PLUGIN("cuda_c1_zeros", "0");
