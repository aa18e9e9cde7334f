// SPDX-License-Identifier: Apache-2.0
// The process' clock as an attack wants it: behind the true one by what is hidden.
#pragma once
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "imports.hpp"

namespace attack {

inline int64_t hidden_ns = 0;
inline int64_t true_ns() {
  timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}
inline int told_time(clockid_t, timespec* out) {
  const int64_t t = true_ns() - hidden_ns;
  out->tv_sec = t / 1000000000, out->tv_nsec = t % 1000000000;
  return 0;
}
inline void slow_clock() {
  replace_import("clock_gettime", reinterpret_cast<void*>(&told_time), Where::everywhere);
}

}  // namespace attack
