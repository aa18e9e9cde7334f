// SPDX-License-Identifier: Apache-2.0
// honest: prints a line in every call
#include "../attack.hpp"

#include <cstdio>

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    std::printf("%lld rows\n", static_cast<long long>(rows(args)));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("prints", "0");
