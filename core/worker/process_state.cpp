// SPDX-License-Identifier: Apache-2.0
// Reads the state of the process (process_state.hpp) from the kernel and compares it.
#include "core/worker/process_state.hpp"

#include <malloc.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/worker/process.hpp"

namespace fk {

namespace {

std::string link_text(const std::filesystem::path& path) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(path, error);
  return error ? std::string() : target.string();
}

double seconds_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

ProcessState ProcessState::now() {
  ProcessState s;
  s.float_modes_ = FloatModes::now();
  pthread_sigmask(SIG_SETMASK, nullptr, &s.mask_);
  for (int number = 0; number < NSIG; ++number) {
    struct sigaction action {};
    if (number && sigaction(number, nullptr, &action) == 0)
      s.handlers_.push_back({reinterpret_cast<void*>(action.sa_handler), action.sa_flags});
    else
      s.handlers_.push_back({});
  }
  for (const int which : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) {
    itimerval timer{};
    getitimer(static_cast<__itimer_which>(which), &timer);
    s.timer_ |= timer.it_value.tv_sec || timer.it_value.tv_usec;
  }
  siginfo_t child{};
  s.children_ = waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0;
  std::error_code error;
  s.directory_ = std::filesystem::current_path(error).string();
  for (char** entry = environ; entry && *entry; ++entry) s.environment_.emplace_back(*entry);
  std::sort(s.environment_.begin(), s.environment_.end());
  // The descriptor that lists this folder is closed by the time its link is read.
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error))
    if (const std::string to = link_text(entry.path()); !to.empty())
      s.files_[std::atoi(entry.path().filename().c_str())] = to;
  std::erase_if(s.files_, [](const auto& file) {
    return file.second.starts_with("/proc/") && file.second.ends_with("/fd");
  });
  return s;
}

std::string ProcessState::changed_in(const ProcessState& later) const {
  if (const std::string modes = float_modes_.changed_in(later.float_modes_); !modes.empty())
    return modes;
  for (int number = 1; number < NSIG; ++number) {
    const auto at = static_cast<size_t>(number);
    if (sigismember(&mask_, number) != sigismember(&later.mask_, number))
      return "the signal mask of its thread was changed (" + signal_name(number) + ")";
    if (handlers_[at].function != later.handlers_[at].function ||
        handlers_[at].flags != later.handlers_[at].flags)
      return "the handler of " + signal_name(number) + " was changed";
  }
  if (!children_ && later.children_) return "a process was started";
  if (!timer_ && later.timer_) return "a timer that sends signals was set";
  if (directory_ != later.directory_) return "the working directory was changed";
  if (environment_ != later.environment_) {
    for (const auto* list : {&later.environment_, &environment_})
      for (const auto& entry : *list) {
        const auto* other = list == &environment_ ? &later.environment_ : &environment_;
        if (std::binary_search(other->begin(), other->end(), entry)) continue;
        return "the environment variable " + entry.substr(0, entry.find('=')) + " was changed";
      }
  }
  for (const auto& [number, target] : later.files_) {
    const auto it = files_.find(number);
    if (it == files_.end())
      return "descriptor " + std::to_string(number) + " was left open: " + target;
    if (it->second != target)
      return "descriptor " + std::to_string(number) + " was replaced: it is " + target + " now";
  }
  for (const auto& [number, target] : files_)
    if (!later.files_.count(number))
      return "descriptor " + std::to_string(number) + " of the host was closed: " + target;
  return "";
}

void ProcessState::put_back() const {
  float_modes_.put_back();
  pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  if (!timer_) {
    const itimerval none{};
    for (const int which : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF})
      setitimer(static_cast<__itimer_which>(which), &none, nullptr);
  }
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    const Handler& handler = handlers_[static_cast<size_t>(number)];
    if (sigaction(number, nullptr, &action) != 0 ||
        reinterpret_cast<void*>(action.sa_handler) == handler.function)
      continue;
    std::memcpy(&action.sa_handler, &handler.function, sizeof handler.function);
    action.sa_flags = handler.flags;
    sigaction(number, &action, nullptr);
  }
}

void adopt_orphans() { prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

int64_t allocated_bytes() {
  const auto info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

int working_threads() {
  std::error_code error;
  int count = 0;
  const auto self = std::to_string(gettid());
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    if (task.path().filename() == self) continue;
    std::string text;
    std::getline(std::ifstream(task.path() / "stat"), text);
    const size_t name_end = text.rfind(')');  // the name may hold any character
    count += name_end + 2 < text.size() && text[name_end + 2] == 'R';
  }
  return count;
}

double seconds_of_other_threads() {
  return seconds_of(CLOCK_PROCESS_CPUTIME_ID) - seconds_of(CLOCK_THREAD_CPUTIME_ID);
}

}  // namespace fk
