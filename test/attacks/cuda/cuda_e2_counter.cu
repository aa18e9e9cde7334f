// SPDX-License-Identifier: Apache-2.0
// E2: does its work in the first two calls of an instance only
//
// Stopped by: every timed call is compared
//
// verdict: wrong
//
// naive: silu_and_mul faster
#include "../attack.cuh"

namespace {

struct Counter : attack::Silu {
  using Silu::Silu;
  int calls = 0;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    if (++calls <= 2) honest(args, stream(ctx));
  }
};
FK_OP(silu_and_mul, Counter);

}  // namespace
FK_PLUGIN("cuda_e2_counter", "0");
