// SPDX-License-Identifier: Apache-2.0
// honest: claims nothing: neither determinism nor batch invariance nor graphs
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  static constexpr fk_claims claims{
      FK_END(fk_claims, sm), FK_CPU, FK_GRAPH_NEVER, 0, 0, FK_ACCUMULATE_F64, 0, 0, nullptr};
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("modest_claims", "0");
