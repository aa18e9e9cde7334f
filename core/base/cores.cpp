// SPDX-License-Identifier: Apache-2.0
// Reads the allowed cores once, before main(), and moves threads between them (cores.hpp).
#include "core/base/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "core/base/clock.hpp"

namespace fk {

namespace {

struct Cores {
  cpu_set_t mask;
  std::vector<int> numbers;
  Cores() {
    CPU_ZERO(&mask);
    if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return;
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &mask)) numbers.push_back(core);
  }
};

const Cores& cores() {
  static const Cores all;
  return all;
}
int number_of(int n) { return cores().numbers[static_cast<size_t>(n) % cores().numbers.size()]; }

// The core on which a thread ran last; -1: unknown.
int core_of(int pid) {
  std::string text;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), text);
  const size_t name_end = text.rfind(')');  // the name may hold any character
  if (name_end == std::string::npos) return -1;
  constexpr int kFieldsBetween = 36;  // from the state, the third, to the core, the 39th
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < kFieldsBetween; ++i) fields >> skipped;
  int core = -1;
  return fields >> core ? core : -1;
}

// Static, so that the cores are read before other code can restrict a thread.
[[maybe_unused]] const Cores& at_start = cores();

}  // namespace

int usable_cores() { return std::max(1, static_cast<int>(cores().numbers.size())); }

void stay_on_core(int n) {
  if (cores().numbers.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(number_of(n), &one);
  (void)::sched_setaffinity(0, sizeof one, &one);
}

void go_to_core(int n) {
  stay_on_core(n);
  if (!cores().numbers.empty()) (void)::sched_setaffinity(0, sizeof cores().mask, &cores().mask);
}

void leave_core_to_first_thread(int pid, int n) {
  if (cores().numbers.size() < 2) return;
  std::error_code code;
  const std::filesystem::directory_iterator tasks("/proc/" + std::to_string(pid) + "/task", code);
  int core = -1;
  for (auto at = begin(tasks); !code && at != end(tasks); at.increment(code)) {
    const int thread = std::atoi(at->path().filename().c_str());
    if (thread == pid) continue;
    if (core < 0) core = n < 0 ? core_of(pid) : number_of(n);
    if (core < 0 || core >= CPU_SETSIZE) return;
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (::sched_getaffinity(thread, sizeof mask, &mask) != 0 || !CPU_ISSET(core, &mask)) continue;
    mask = cores().mask;
    CPU_CLR(core, &mask);
    (void)::sched_setaffinity(thread, sizeof mask, &mask);
  }
}

int64_t pauses_in(double seconds) {
  constexpr int kPauses = 1000, kTries = 5;
  double least = 1;
  for (int i = 0; i < kTries; ++i) {  // another process may take the core meanwhile
    const double begin = now_seconds();
    for (int n = 0; n < kPauses; ++n) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      asm volatile("yield");
#endif
    }
    least = std::min(least, now_seconds() - begin);
  }
  return std::max<int64_t>(1, static_cast<int64_t>(seconds / least * kPauses));
}

}  // namespace fk
