// SPDX-License-Identifier: Apache-2.0
// honest: throws and catches inside of the call
#include "../attack.hpp"

#include <stdexcept>

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    for (int64_t t = 0; t < rows(args); ++t) {
      try {
        if (t % 2) throw std::runtime_error("odd");
        attack::silu_rows(args.x, args.out, width, t, t + 1);
      } catch (const std::runtime_error&) {
        attack::silu_rows(args.x, args.out, width, t, t + 1);
      }
    }
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("exceptions", "0");
