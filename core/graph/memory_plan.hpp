// SPDX-License-Identifier: Apache-2.0
// Places temporaries in one arena. Temporaries whose lives do not overlap share addresses.
#pragma once
#include <cstdint>
#include <vector>

namespace fk {

struct Life {
  int64_t bytes = 0;
  int first = 0, last = 0;  // nodes that use it, inclusive
};
struct MemoryPlan {
  std::vector<int64_t> offsets;  // by life, multiples of 256
  int64_t bytes = 0;
};
// Greedy by size: the largest first, each at the lowest address that is free during its life.
MemoryPlan plan_memory(const std::vector<Life>& lives);

}  // namespace fk
