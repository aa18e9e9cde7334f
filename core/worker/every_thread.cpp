// SPDX-License-Identifier: Apache-2.0
// Sends a signal to every other thread of this process. The signal's handler runs the function.
#include "core/worker/every_thread.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "core/base/clock.hpp"

namespace fk {

namespace {

// The kernel's own struct, equal on x86-64 and aarch64.
struct KernelAction {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  uint64_t mask;
};

// The signal by which glibc cancels threads. It is the only one that reaches a GPU driver's
// threads: they block all signals, but pthread_sigmask() never blocks this one. The host cancels no
// threads, so it may use the signal.
constexpr int kSignal = 32;

bool (*current)() = nullptr;
std::atomic<int> done_by{0}, failed_by{0};

void handle(int) {
  const int tid = static_cast<int>(::syscall(SYS_gettid));
  (current() ? done_by : failed_by).store(tid);
}

long change_action(int number, const KernelAction* action, KernelAction* old) {
  return ::syscall(SYS_rt_sigaction, number, action, old, sizeof action->mask);
}

// Installs the handler. glibc's sigaction() refuses this signal. So the handler is installed for
// SIGRTMAX first. The kernel's entry then holds glibc's restorer, the code that returns from a
// handler, and is copied to this signal.
bool install(KernelAction& old) {
  struct sigaction wanted {
  }, before{};
  wanted.sa_handler = handle;
  wanted.sa_flags = SA_RESTART | SA_ONSTACK;
  sigfillset(&wanted.sa_mask);
  KernelAction action{};
  const bool known = ::sigaction(SIGRTMAX, &wanted, &before) == 0 &&
                     change_action(SIGRTMAX, nullptr, &action) == 0;
  ::sigaction(SIGRTMAX, &before, nullptr);
  return known && change_action(kSignal, &action, &old) == 0;
}

// Runs the action in one thread; true on success, or if the thread has ended.
bool ask(int tid) {
  done_by = failed_by = 0;
  if (::syscall(SYS_tgkill, ::getpid(), tid, kSignal) != 0) return true;
  constexpr double kPatience = 1;
  const std::string entry = "/proc/self/task/" + std::to_string(tid);
  for (const double end = now_seconds() + kPatience; now_seconds() < end; ::usleep(50)) {
    if (done_by == tid) return true;
    if (failed_by == tid) return false;
    std::error_code code;
    if (!std::filesystem::exists(entry, code)) return true;
  }
  return false;
}

}  // namespace

int in_every_other_thread(bool (*action)()) {
  current = action;
  KernelAction old{};
  int missing = 0;
  std::set<int> seen = {static_cast<int>(::syscall(SYS_gettid))};
  bool installed = false;
  // Repeats until no thread is new: a thread may start others before it is asked.
  for (bool again = true; again;) {
    again = false;
    std::error_code code;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", code)) {
      const int tid = std::atoi(entry.path().filename().c_str());
      if (!seen.insert(tid).second) continue;
      again = true;
      if (!installed && !install(old)) return 1;
      installed = true;
      missing += ask(tid) ? 0 : 1;
    }
  }
  // If a thread is missing, the handler stays: a late signal without a handler ends the process.
  if (installed && missing == 0) change_action(kSignal, &old, nullptr);
  return missing;
}

}  // namespace fk
