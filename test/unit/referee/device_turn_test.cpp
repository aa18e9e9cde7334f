// SPDX-License-Identifier: Apache-2.0
#include "core/referee/judge/device_turn.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "test/catch.hpp"

using namespace fk;

TEST_CASE("judges of one device take turns, those of the CPU do not") {
  const auto waits = [](const std::string& first, const std::string& second) {
    auto turn = std::make_unique<DeviceTurn>(first);
    std::atomic<bool> had = false;
    std::thread other([&] {
      const DeviceTurn next(second);
      had = true;
    });
    for (int i = 0; i < 200 && !had; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const bool waited = !had;
    turn.reset();
    other.join();
    return waited;
  };
  CHECK(waits("cuda:7", "cuda:7"));
  CHECK_FALSE(waits("cuda:7", "cuda:6"));
  CHECK_FALSE(waits("cpu", "cpu"));
}
