// SPDX-License-Identifier: Apache-2.0
#include "core/judge/device_lock.hpp"

#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "test/catch.hpp"
#include "test/folder.hpp"

using namespace fk;

namespace {

using Names = std::vector<std::string>;

struct Waited {};

// True if a lock on `second` has to wait for a lock on `first`.
bool waits(const Names& first, const Names& second) {
  const DeviceLock turn(first);
  try {
    const DeviceLock next(second, [] { throw Waited(); });
  } catch (const Waited&) {
    return true;
  }
  return false;
}

// GPUs that this process sees, for as long as this lives.
struct Visible {
  explicit Visible(const char* names) { ::setenv("CUDA_VISIBLE_DEVICES", names, 1); }
  ~Visible() { ::unsetenv("CUDA_VISIBLE_DEVICES"); }
};

}  // namespace

TEST_CASE("device_turn_is_had_by_one_at_a_time") {
  CHECK(waits({"nowhere:7"}, {"nowhere:7"}));
  CHECK_FALSE(waits({"nowhere:7"}, {"nowhere:6"}));
  CHECK_FALSE(waits({"cpu"}, {"cpu"}));
  // Ranks have one each, or share them.
  CHECK(waits({"nowhere:6", "nowhere:7"}, {"nowhere:7"}));
  CHECK(waits({"nowhere:7"}, {"nowhere:7", "nowhere:6"}));
  CHECK_FALSE(waits({"nowhere:6", "nowhere:7"}, {"nowhere:8"}));
  CHECK_FALSE(waits({"nowhere:6", "nowhere:6"}, {"nowhere:7"}));
  // A process which cannot lock all devices holds none.
  CHECK_FALSE(waits({"nowhere:5"}, {"nowhere:6"}));
}

TEST_CASE("device_turn_is_shared_by_those_who_only_compute") {
  using Use = DeviceLock::Use;
  const auto look = [] { throw Waited(); };
  auto one = std::make_unique<DeviceLock>(Names{"nowhere:4"}, look, Use::computes);
  {
    const DeviceLock other({"nowhere:4"}, look, Use::computes);
    CHECK_THROWS_AS(DeviceLock({"nowhere:4"}, look), Waited);
  }
  CHECK_THROWS_AS(DeviceLock({"nowhere:4"}, look), Waited);
  CHECK(DeviceLock::if_free({"nowhere:4"}) == nullptr);
  // Whoever waits to measure comes before those who want to compute after it.
  std::atomic<bool> waits = false, had = false;
  std::thread measures([&] {
    const DeviceLock next({"nowhere:4"}, [&] { waits = true; });
    had = true;
  });
  while (!waits) std::this_thread::yield();
  CHECK_THROWS_AS(DeviceLock({"nowhere:4"}, look, Use::computes), Waited);
  one.reset();
  measures.join();
  CHECK(had);
  const DeviceLock measured({"nowhere:4"}, look);
  CHECK_THROWS_AS(DeviceLock({"nowhere:4"}, look, Use::computes), Waited);
}

// A number means another device where others are visible.
TEST_CASE("device_turn_knows_a_gpu_by_the_machines_name") {
  const Folder folder;  // not where somebody may have a turn on a GPU
  const char* before = ::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  ::setenv("TMPDIR", folder.path.c_str(), 1);
  {
    CHECK(waits({"cuda"}, {"cuda:0"}));
    const DeviceLock turn({"cuda:3"});
    const auto free = [](const char* name) { return DeviceLock::if_free({name}) != nullptr; };
    CHECK_FALSE(free("cuda:3"));
    CHECK(free("cuda:0"));
    const Visible two("5, 3");
    CHECK_FALSE(free("cuda:1"));
    CHECK(free("cuda"));
    CHECK(free("cuda:0"));
    const Visible by_uuid("GPU-a,GPU-b");
    CHECK(waits({"cuda:1"}, {"cuda:1"}));
    CHECK_FALSE(waits({"cuda:1"}, {"cuda:0"}));
  }
  before ? ::setenv("TMPDIR", kept.c_str(), 1) : ::unsetenv("TMPDIR");
}

// Whoever waits for the first of several has none of the others, in whatever order they are asked
// for: nobody waits in a ring.
TEST_CASE("device_turn_makes_no_ring") {
  const DeviceLock turn({"nowhere:1"});
  for (const Names& names : {Names{"nowhere:1", "nowhere:2"}, Names{"nowhere:2", "nowhere:1"}}) {
    bool other = false;
    const auto look = [&] {
      other = DeviceLock::if_free({"nowhere:2"}) != nullptr;
      throw Waited();
    };
    CHECK_THROWS_AS(DeviceLock(names, look), Waited);
    CHECK(other);
  }
}

// A process which returns the lock and wants it again at once comes behind all waiting processes.
TEST_CASE("device_turn_comes_to_who_waits") {
  auto turn = std::make_unique<DeviceLock>(Names{"nowhere:3"});
  std::atomic<bool> waits = false, had = false;
  std::thread other([&] {
    const DeviceLock next({"nowhere:3"}, [&] { waits = true; });
    had = true;
  });
  while (!waits) std::this_thread::yield();
  CHECK(DeviceLock::if_free({"nowhere:3"}) == nullptr);
  turn.reset();
  turn = std::make_unique<DeviceLock>(Names{"nowhere:3"});
  CHECK(had);
  turn.reset();
  other.join();
}
