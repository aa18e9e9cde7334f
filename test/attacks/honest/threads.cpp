// SPDX-License-Identifier: Apache-2.0
// honest: threads of its own, made and joined inside of the call
#include "../attack.hpp"

#include <thread>

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t half = rows(args) / 2;
    std::thread other([&] { attack::silu_rows(args.x, args.out, width, 0, half); });
    attack::silu_rows(args.x, args.out, width, half, rows(args));
    other.join();
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("threads", "0");
