// SPDX-License-Identifier: Apache-2.0
// honest: asks for 64 MiB of scratch in every instance
#include "../attack.cuh"

namespace {

struct Asks : attack::Silu {
  using Silu::Silu;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max, fk_need& need) {
    Silu::supports(init, weights, max, need);
    need.scratch = int64_t(64) << 20;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) { honest(args, stream(ctx)); }
};
FK_OP(silu_and_mul, Asks);

}  // namespace
FK_PLUGIN("cuda_asks_for_much", "0");
