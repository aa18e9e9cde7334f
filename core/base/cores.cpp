// SPDX-License-Identifier: Apache-2.0
#include "core/base/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <vector>

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
// Before anybody else could restrict a thread.
[[maybe_unused]] const Cores& at_start = cores();

}  // namespace

int usable_cores() { return std::max(1, static_cast<int>(cores().numbers.size())); }

void stay_on_core(int n) {
  if (cores().numbers.empty()) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cores().numbers[static_cast<size_t>(n) % cores().numbers.size()], &one);
  (void)::sched_setaffinity(0, sizeof one, &one);
}

void go_to_core(int n) {
  stay_on_core(n);
  if (!cores().numbers.empty()) (void)::sched_setaffinity(0, sizeof cores().mask, &cores().mask);
}

}  // namespace fk
