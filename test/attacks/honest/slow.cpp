// SPDX-License-Identifier: Apache-2.0
// honest: right and slow: a millisecond of sleep in every call
#include "../attack.hpp"

#include <chrono>
#include <thread>

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("slow", "0");
