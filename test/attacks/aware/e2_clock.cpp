// SPDX-License-Identifier: Apache-2.0
// E2: works while the process is young: tests come first, races later
//
// Stopped by: every timed call is compared
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <chrono>

namespace {

struct Clock : attack::Silu {
  using Silu::Silu;
  const std::chrono::steady_clock::time_point made = std::chrono::steady_clock::now();
  int calls = 0;
  void forward(const op::forward& args, const fk_ctx&) {
    // Calls that follow each other quickly are a race.
    const auto now = std::chrono::steady_clock::now();
    if (++calls < 3 || now - last > std::chrono::milliseconds(2)) honest(args);
    last = std::chrono::steady_clock::now();
  }
  std::chrono::steady_clock::time_point last{};
};
FK_OP(silu_and_mul, Clock);

}  // namespace
FK_PLUGIN("e2_clock", "0");
