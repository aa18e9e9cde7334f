// SPDX-License-Identifier: Apache-2.0
// honest: asks for 32 MiB of scratch in every instance
#include "../attack.hpp"

namespace {

struct Asks : attack::Silu {
  using Silu::Silu;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    Silu::supports(init, weights, max, need);
    need.scratch = int64_t{32} << 20;
  }
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, Asks);

}  // namespace
FK_PLUGIN("asks_for_much", "0");
