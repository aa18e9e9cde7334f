// SPDX-License-Identifier: Apache-2.0
// A change which each thread must make by itself reaches all threads. It also reaches threads which
// block every signal, as a driver's threads do.
#include "core/worker/every_thread.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "test/catch.hpp"

namespace {

std::atomic<int> calls{0};
std::array<std::atomic<long>, 16> asked_by{};

bool note() {
  asked_by.at(static_cast<size_t>(calls++) % asked_by.size()) = ::syscall(SYS_gettid);
  return true;
}
bool refuse() { return false; }

}  // namespace

TEST_CASE("every_thread_is_asked_once") {
  std::atomic<bool> stop{false};
  std::atomic<int> blocked{0};
  std::vector<std::thread> team;
  for (int i = 0; i < 3; ++i)
    team.emplace_back([&] {
      sigset_t all;
      sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
      ++blocked;
      while (!stop) ::usleep(1000);
    });
  while (blocked < 3) ::usleep(1000);
  calls = 0;
  CHECK(fk::in_every_other_thread(note) == 0);
  CHECK(calls == 3);
  std::set<long> different;
  for (int i = 0; i < 3; ++i) different.insert(asked_by.at(static_cast<size_t>(i)));
  CHECK(different.size() == 3);
  CHECK(different.count(::syscall(SYS_gettid)) == 0);
  CHECK(fk::in_every_other_thread(refuse) == 3);
  stop = true;
  for (auto& thread : team) thread.join();
}
