// SPDX-License-Identifier: Apache-2.0
// cub::DeviceRadixSort for the emulation: a stable sort by the bits that were asked for.
#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace cub {

struct DeviceRadixSort {
  template <class K, class V>
  static cudaError_t SortPairs(void* temporary, size_t& bytes, const K* keys, K* sorted, const V* values, V* sorted_values, int count, int begin, int end,
                               cudaStream_t) {
    if (!temporary) return bytes = 1, cudaSuccess;
    const K mask = (end < int(8 * sizeof(K)) ? (K{1} << end) - 1 : ~K{0}) >> begin << begin;
    std::vector<int> order(static_cast<size_t>(count));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return (keys[a] & mask) < (keys[b] & mask); });
    for (int i = 0; i < count; ++i) {
      const int from = order[static_cast<size_t>(i)];
      sorted[i] = keys[from], sorted_values[i] = values[from];
    }
    return cudaSuccess;
  }
};

}  // namespace cub
