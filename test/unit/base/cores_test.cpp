// SPDX-License-Identifier: Apache-2.0
#include "core/base/cores.hpp"

#include <sched.h>

#include <thread>

#include "test/catch.hpp"

namespace fk {

namespace {

int may_use() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CHECK(::sched_getaffinity(0, sizeof mask, &mask) == 0);
  return CPU_COUNT(&mask);
}

}  // namespace

TEST_CASE("cores_a_thread_goes_where_it_is_told_and_is_free_again") {
  const int cores = usable_cores();
  CHECK(cores == may_use());
  if (cores == 1) return;
  std::thread([&] {
    stay_on_core(0);
    const int first = ::sched_getcpu();
    CHECK(may_use() == 1);
    stay_on_core(cores + 1);  // round about
    CHECK(may_use() == 1);
    const int second = ::sched_getcpu();
    CHECK(second != first);
    // A busy machine may move it on at once, sometimes.
    constexpr int kTurns = 100;
    int there = 0;
    for (int i = 0; i < kTurns; ++i) {
      go_to_core(i % 2);
      there += ::sched_getcpu() == (i % 2 ? second : first);
    }
    CHECK(there > kTurns * 3 / 4);
    CHECK(may_use() == cores);
  }).join();
}

}  // namespace fk
