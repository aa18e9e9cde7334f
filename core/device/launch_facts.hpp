// SPDX-License-Identifier: Apache-2.0
// What captured work launches, as a device's driver tells it.
#pragma once
#include <cstdint>
#include <string>

namespace fk {

struct LaunchFacts {
  int64_t launches = 0;  // kernels, copies and fills
  // Of the kernel with the most threads in all.
  std::string kernel;
  int64_t registers = 0, local_bytes = 0, shared_bytes = 0;  // per thread, per thread, per block
  double occupancy = 0;  // warps that fit into a multiprocessor at once, of those that could
};

}  // namespace fk
