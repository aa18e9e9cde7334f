// SPDX-License-Identifier: Apache-2.0
// Places the largest buffers first (memory_plan.hpp).
#include "core/graph/memory_plan.hpp"

#include <algorithm>
#include <numeric>

namespace fk {

MemoryPlan plan_memory(const std::vector<Life>& lives) {
  MemoryPlan plan;
  plan.offsets.assign(lives.size(), 0);
  std::vector<size_t> order(lives.size()), placed;
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lives[a].bytes > lives[b].bytes; });
  const auto rounded = [&](size_t i) { return (lives[i].bytes + 255) / 256 * 256; };
  for (const size_t i : order) {
    // The placed buffers that live at the same time, by address. The first gap between them that is
    // wide enough is taken.
    std::vector<size_t> busy;
    for (const size_t j : placed) {
      if (lives[j].first <= lives[i].last && lives[i].first <= lives[j].last) busy.push_back(j);
    }
    std::sort(busy.begin(), busy.end(),
              [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; });
    int64_t at = 0;
    for (const size_t j : busy) {
      if (at + rounded(i) <= plan.offsets[j]) break;
      at = std::max(at, plan.offsets[j] + rounded(j));
    }
    plan.offsets[i] = at;
    plan.bytes = std::max(plan.bytes, at + rounded(i));
    placed.push_back(i);
  }
  return plan;
}

}  // namespace fk
