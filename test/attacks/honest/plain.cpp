// SPDX-License-Identifier: Apache-2.0
// honest: nothing odd at all
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("plain", "0");
