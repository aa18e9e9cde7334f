// SPDX-License-Identifier: Apache-2.0
#include "baselines/cpu/team.hpp"

#include <sched.h>
#include <time.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/base/clock.hpp"
#include "core/base/cores.hpp"
#include "test/catch.hpp"

namespace fk::cpu {

namespace {

constexpr double kMilliNs = 1e6;

void work_for(double seconds) {
  for (const double end = now_seconds() + seconds; now_seconds() < end;) continue;
}

double worked_s() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// A caller that other processes have kept waiting works alone for a while.
template <class True>
bool comes_true(const True& is_true) {
  constexpr double kPatience = 20;
  for (const double end = now_seconds() + kPatience; now_seconds() < end;)
    if (is_true()) return true;
  return false;
}

// A team with its threads, as large as the machine has cores.
Team& large_team() {
  Team& team = Team::of_process();
  team.size_for(usable_cores(), 1000, 100 * kMilliNs);
  return team;
}

}  // namespace

TEST_CASE("team_every_part_is_done_once_whatever_the_sizes") {
  Team& team = large_team();
  for (int round = 0; round < 20000; ++round) {
    const int parts = 1 + round % 37, size = 1 + round % (usable_cores() + 2);
    std::vector<std::atomic<int>> done(static_cast<size_t>(parts));
    std::atomic<bool> others{false};
    team.run(size, parts, [&](int64_t part, int thread) {
      ++done[static_cast<size_t>(part)];
      if (thread < 0 || thread >= size) others = true;
    });
    for (const auto& count : done) REQUIRE(count == 1);
    REQUIRE_FALSE(others);
  }
}

TEST_CASE("team_threads_that_work_at_the_same_time_have_a_core_each") {
  const int cores = usable_cores();
  if (cores < 2) return;
  Team& team = large_team();
  // The caller goes to the cores of its helpers, one after the other.
  for (int home = 0; home < 2 * cores; ++home) {
    stay_on_core(home);
    std::vector<std::atomic<int>> core_of(static_cast<size_t>(cores));
    for (auto& core : core_of) core = -1;
    // Long enough for each thread to be there, whatever else the machine does.
    std::atomic<int> here{0};
    team.run(cores, cores, [&](int64_t, int thread) {
      ++here;
      for (const double end = now_seconds() + 2; here < cores && now_seconds() < end;) continue;
      core_of[static_cast<size_t>(thread)] = ::sched_getcpu();
    });
    std::set<int> different;
    for (auto& core : core_of) different.insert(core);
    CHECK(here == cores);
    CHECK(static_cast<int>(different.size()) == cores);
  }
  go_to_core(0);  // and free again
}

TEST_CASE("team_size_grows_with_the_work_and_is_one_for_little") {
  Team& team = large_team();
  const int cores = usable_cores();
  CHECK(team.size_for(cores, 1000, 500) == 1);
  CHECK(team.size_for(1, 1000, 100 * kMilliNs) == 1);
  CHECK(team.size_for(cores, 1, 100 * kMilliNs) == 1);
  CHECK(comes_true([&] { return team.size_for(cores, 1000, 100 * kMilliNs) == cores; }));
  int before = 1;
  for (double ns = 1000; ns < 100 * kMilliNs; ns *= 4) {
    work_for(1e-3);  // the threads sleep
    const int size = team.size_for(cores, 1000, ns);
    CHECK(size >= before);
    before = size;
  }
}

TEST_CASE("team_works_that_follow_each_other_wake_it_and_one_alone_does_not") {
  if (usable_cores() < 2) return;
  Team& team = large_team();
  constexpr double kShortNs = 8000;
  int woken = 0;
  for (int round = 0; round < 200; ++round) {
    work_for(1e-3);
    woken += team.size_for(2, 1000, kShortNs) > 1;
  }
  CHECK(woken == 0);
  CHECK(comes_true([&] {
    work_for(kShortNs * 1e-9);
    return team.size_for(2, 1000, kShortNs) > 1;
  }));
}

TEST_CASE("team_a_caller_that_waited_for_a_thread_without_a_core_works_alone_for_a_while") {
  if (usable_cores() < 2) return;
  Team& team = large_team();
  const auto large = [&] { return team.size_for(2, 1000, 100 * kMilliNs); };
  REQUIRE(comes_true([&] { return large() == 2; }));
  // The other thread's part takes much longer than the caller's.
  const auto wait_for_other = [&] {
    std::atomic<int> here{0};
    team.run(2, 2, [&](int64_t, int thread) {
      ++here;
      comes_true([&] { return here == 2; });
      if (thread == 1) work_for(20e-3);
    });
  };
  CHECK(comes_true([&] {
    wait_for_other();  // in vain where the caller's own part takes long because of other load
    return large() == 1;
  }));
  CHECK(comes_true([&] { return large() == 2; }));
}

TEST_CASE("team_sleeps_soon_after_the_last_work") {
  Team& team = large_team();
  team.run(usable_cores(), usable_cores(), [](int64_t, int) { work_for(1e-4); });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const double before = worked_s();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(worked_s() - before < 5e-3);
}

TEST_CASE("team_a_caller_beside_another_works_alone") {
  Team& team = large_team();
  team.run(2, 2, [&](int64_t, int) {
    int threads = 0;
    team.run(2, 5, [&](int64_t, int thread) { threads += 1 + 100 * thread; });
    CHECK(threads == 5);
  });
}

TEST_CASE("team_what_a_part_throws_reaches_the_caller_and_the_team_goes_on") {
  Team& team = large_team();
  std::atomic<int> done{0};
  CHECK_THROWS_AS(team.run(usable_cores(), 50,
                           [&](int64_t part, int) {
                             ++done;
                             if (part == 7) throw std::runtime_error("part 7");
                           }),
                  std::runtime_error);
  team.run(usable_cores(), 50, [&](int64_t, int) { ++done; });
  if (usable_cores() > 1) CHECK(done == 100);
}

}  // namespace fk::cpu
