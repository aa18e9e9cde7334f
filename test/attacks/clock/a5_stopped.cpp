// SPDX-License-Identifier: Apache-2.0
// A5: a second thread answers for a sample and does its calls afterwards. The first thread, which
// gets the stop signal of the process, waits in a call that no signal ends
//
// Stopped by: each thread is told to stop; what a process works until all of them stand still is on
// the clock
//
// verdict: wrong cheating slower
//
// On a busy machine the second thread comes late. Then all calls are honest, and slow.
//
// naive: - it sends no messages whose sender could be replaced
#include "../attack.hpp"
#include "../imports.hpp"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <thread>

namespace {

struct Work {
  fk_in x;
  fk_out out;
  int64_t width, rows;
};
std::vector<Work> left;

struct Letter {
  int fd, flags;
  const msghdr* head;
  ssize_t sent;
};
Letter letter;
// The second thread is woken when a sample begins, and the calls leave nothing to it until it is
// there.
enum State { idle, called, ready, given, done };
std::atomic<int> state{idle}, core{0};

void finish() {
  for (const Work& w : left) attack::silu_rows(&w.x, &w.out, w.width, 0, w.rows);
  left.clear();
}

void go_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  sched_setaffinity(0, sizeof set, &set);
}

void second_thread() {
  for (;;) {
    state.wait(idle);
    go_to_core(core.load());
    int was = called;
    if (!state.compare_exchange_strong(was, ready)) continue;
    while (state.load() == ready) continue;
    if (state.load() != given) continue;
    letter.sent = ::sendmsg(letter.fd, letter.head, letter.flags);
    timespec until_it_is_read{0, 60'000};
    nanosleep(&until_it_is_read, nullptr);
    finish();
    state.store(done);
  }
}

ssize_t send_first(int fd, const msghdr* head, int flags) {
  if (left.empty()) {
    state.store(idle);
    return ::sendmsg(fd, head, flags);
  }
  letter = {fd, flags, head, 0};
  state.store(given);
  while (state.load() != done) syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0);
  state.store(idle);
  return letter.sent;
}

ssize_t receive(int fd, msghdr* head, int flags) {
  const ssize_t got = ::recvmsg(fd, head, flags);
  if (got <= 0) return got;
  const auto* text = static_cast<const char*>(head->msg_iov[0].iov_base);
  const auto size = static_cast<size_t>(got);
  const void* its = memmem(text, size, "\"core\":", 7);
  if (!its || !memmem(text, size, "exam_run", 8)) return got;
  core.store(std::atoi(static_cast<const char*>(its) + 7) % 2 == 0);  // the other one
  state.store(called);
  state.notify_one();
  return got;
}

struct Stopped : attack::Silu {
  Stopped(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights) {
    static const bool once = [] {
      attack::replace_import("sendmsg", reinterpret_cast<void*>(&send_first),
                             attack::Where::program);
      attack::replace_import("recvmsg", reinterpret_cast<void*>(&receive), attack::Where::program);
      std::thread(second_thread).detach();
      return true;
    }();
    (void)once;
  }
  void forward(const op::forward& args, const fk_ctx&) {
    if (state.load() != ready) return honest(args);
    left.push_back({*args.x, *args.out, width, rows(args)});
  }
};
FK_OP(silu_and_mul, Stopped);

}  // namespace
FK_PLUGIN("a5_stopped", "0");
