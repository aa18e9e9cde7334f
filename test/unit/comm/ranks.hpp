// SPDX-License-Identifier: Apache-2.0
// Runs a body in several forked processes, the ranks, that share one communicator block. Catch2
// does not work across a fork, so a body returns what is wrong, or nothing.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/comm/shared_comm.hpp"

namespace fk::test {

struct RankResult {
  std::string text;    // what the body returned, or how the process ended
  double seconds = 0;  // until then
};

inline double seconds_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

using RankBody = std::function<std::string(SharedCommunicator&)>;

// `after` is called by the parent with the processes, before it waits for them.
inline std::vector<RankResult> run_ranks(
    int size, double patience_s, const RankBody& body,
    const std::function<void(const std::vector<pid_t>&, MeetingBoard&)>& after = {}) {
  constexpr size_t kText = 512;
  const SharedMemory block = make_shared_comm(size);
  const SharedMemory texts = SharedMemory::create("texts", kText * static_cast<size_t>(size));
  const auto text = [&](int r) {
    return static_cast<char*>(texts.data()) + kText * static_cast<size_t>(r);
  };
  std::vector<pid_t> ranks;
  const double start = seconds_now();
  for (int r = 0; r < size; ++r) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::alarm(60);
      std::string what;
      try {
        SharedCommunicator comm(SharedMemory::from_fd(block.fd(), block.bytes(), true), r, size,
                                patience_s);
        what = body(comm);
      } catch (const std::exception& e) {
        what = e.what();
      }
      std::strncpy(text(r), what.c_str(), kText - 1);
      ::_exit(0);
    }
    ranks.push_back(pid);
  }
  if (after) after(ranks, meeting_board(block));
  std::vector<RankResult> out;
  for (int r = 0; r < size; ++r) {
    int status = 0;
    ::waitpid(ranks[static_cast<size_t>(r)], &status, 0);
    out.push_back({WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : text(r),
                   seconds_now() - start});
  }
  return out;
}

}  // namespace fk::test
