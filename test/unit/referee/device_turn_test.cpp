// SPDX-License-Identifier: Apache-2.0
#include "core/referee/judge/device_turn.hpp"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "test/catch.hpp"

using namespace fk;

TEST_CASE("judges of one device take turns, those of the CPU do not") {
  const auto waits = [](const std::string& first, const std::string& second, bool first_all = false,
                        bool second_all = false) {
    auto turn = std::make_unique<DeviceTurn>(first, first_all);
    std::atomic<bool> had = false;
    std::thread other([&] {
      const DeviceTurn next(second, second_all);
      had = true;
    });
    for (int i = 0; i < 200 && !had; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const bool waited = !had;
    turn.reset();
    other.join();
    return waited;
  };
  CHECK(waits("nowhere:7", "nowhere:7"));
  CHECK_FALSE(waits("nowhere:7", "nowhere:6"));
  CHECK_FALSE(waits("cpu", "cpu"));
  // Ranks have all of them.
  CHECK(waits("nowhere:7", "nowhere:6", false, true));
  CHECK(waits("nowhere:7", "nowhere:6", true, false));
  CHECK(waits("nowhere:7", "nowhere:7", true, true));
  CHECK_FALSE(waits("nowhere:7", "elsewhere:7", true, true));
  CHECK_FALSE(waits("cpu", "cpu", true, true));
}
