// SPDX-License-Identifier: Apache-2.0
// C8: right for few rows, zeros for many
//
// Stopped by: every timed shape and every timed call is compared
//
// verdict: wrong
//
// naive: silu_and_mul faster
//
// size: ci
#include "../attack.cuh"

namespace {

struct Shape : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx& ctx) { rows(args) <= 16 ? honest(args, stream(ctx)) : zero(args, stream(ctx)); }
};
FK_OP(silu_and_mul, Shape);

}  // namespace
FK_PLUGIN("cuda_c8_shape", "0");
