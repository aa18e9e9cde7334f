// SPDX-License-Identifier: Apache-2.0
#include "core/base/clock.hpp"

#include <ctime>

namespace fk {

double now_seconds() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace fk
