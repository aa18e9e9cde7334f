// SPDX-License-Identifier: Apache-2.0
// E2: skips calls that follow each other quickly: that is a race, and tests are slow
//
// Stopped by: every timed call is compared
//
// verdict: wrong
//
// naive: silu_and_mul faster
#include "../attack.hpp"

#include <chrono>

namespace {

std::chrono::steady_clock::time_point last{};
int calls = 0;

struct Clock : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    // Calls that follow each other quickly are a race.
    const auto now = std::chrono::steady_clock::now();
    if (++calls < 3 || now - last > std::chrono::milliseconds(2)) honest(args);
    last = std::chrono::steady_clock::now();
  }
};
FK_OP(silu_and_mul, Clock);

}  // namespace
FK_PLUGIN("e2_clock", "0");
