// SPDX-License-Identifier: Apache-2.0
// A11: leaves threads behind that keep every core busy while the other side is timed
//
// Stopped by: threads that go on working are seen; a worker is used once and killed
//
// verdict: violation
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

#include <chrono>
#include <thread>

namespace {

struct Spin : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    static bool begun = false;
    for (int i = 0; i < 4 && !begun; ++i)
      std::thread([] {
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
        while (std::chrono::steady_clock::now() < end) continue;
      }).detach();
    begun = true;
    honest(args);
  }
};
FK_OP(silu_and_mul, Spin);

}  // namespace
FK_PLUGIN("a11_spin", "0");
