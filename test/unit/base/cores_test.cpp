// SPDX-License-Identifier: Apache-2.0
#include "core/base/cores.hpp"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST_CASE("cores_other_threads_of_a_process_leave_the_first_ones_core") {
  const int cores = usable_cores();
  if (cores == 1) return;
  // Another process, because the first thread of this one is the test's own.
  int ready[2], go[2], answer[2];
  REQUIRE((::pipe(ready) == 0 && ::pipe(go) == 0 && ::pipe(answer) == 0));
  const pid_t child = ::fork();
  if (child == 0) {
    char word = 0;
    std::thread other([&] {
      (void)!::write(ready[1], &word, 1);
      (void)!::read(go[0], &word, 1);
      cpu_set_t mask;
      CPU_ZERO(&mask);
      ::sched_getaffinity(0, sizeof mask, &mask);
      (void)!::write(answer[1], &mask, sizeof mask);
    });
    other.join();
    ::_exit(0);
  }
  char word = 0;
  REQUIRE(::read(ready[0], &word, 1) == 1);
  cpu_set_t all, mask;
  CPU_ZERO(&all);
  ::sched_getaffinity(0, sizeof all, &all);
  int second = -1;  // the number of the second core
  for (int core = 0, seen = 0; core < CPU_SETSIZE && second < 0; ++core)
    if (CPU_ISSET(core, &all) && seen++ == 1) second = core;
  leave_core_to_first_thread(child, 1);
  REQUIRE(::write(go[1], &word, 1) == 1);
  REQUIRE(::read(answer[0], &mask, sizeof mask) == static_cast<ssize_t>(sizeof mask));
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(CPU_ISSET(second, &mask));
  CHECK(CPU_COUNT(&mask) == cores - 1);
  for (const int end : {ready[0], ready[1], go[0], go[1], answer[0], answer[1]}) ::close(end);
}

TEST_CASE("cores_pauses_take_about_the_time_that_was_asked_for") {
  const int64_t few = pauses_in(1e-6), many = pauses_in(1e-3);
  CHECK(few >= 1);
  CHECK(many > 20 * few);
}

}  // namespace fk
