// SPDX-License-Identifier: Apache-2.0
// honest: computes everything twice and keeps the second result
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    honest(args);
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("twice", "0");
