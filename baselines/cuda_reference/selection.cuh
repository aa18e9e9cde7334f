// SPDX-License-Identifier: Apache-2.0
// Selections from a row of values need a total order: larger value first, then lower index. 64-bit
// keys have this order: the value's bits made monotone, then the complement of the index. So "the
// first element at which the mass reaches a target" is a bisection over keys, without a sort, and
// ties are exact.
#pragma once
#include "common.cuh"

namespace fkr {

__device__ inline uint64_t key_of(double value, int64_t index) {
  const uint32_t bits = __float_as_uint(static_cast<float>(value == 0 ? 0.0 : value));
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return uint64_t(ordered) << 32 | (0xffffffffu - uint32_t(index));
}
__device__ inline int64_t index_of(uint64_t key) { return 0xffffffffu - uint32_t(key); }

// One row of values with weights exp((value - most) / temperature), or 1 when counting.
struct Row {
  Ref x;
  int64_t base, width;
  double most, temperature;
  bool counting;
  // The sum of the weights of all elements with keys from `key` on, in every thread.
  __device__ double mass(uint64_t key) const {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
      const double v = load(x, base + i);
      if (key_of(v, i) >= key) sum += counting ? 1 : exp((v - most) / temperature);
    }
    return block_sum(sum);
  }
  // The largest key at which the mass reaches (or, strictly, exceeds) the target; `last` if no
  // earlier key does.
  __device__ uint64_t first(double target, bool strictly, uint64_t last) const {
    uint64_t low = last, high = ~uint64_t{0};  // the answer is in [low, high]
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2 + 1;
      const double m = mass(middle);
      if (strictly ? m > target : m >= target) low = middle;
      else high = middle - 1;
    }
    return low;
  }
};

// The smallest key of a row.
__device__ inline uint64_t last_key(const Ref& x, int64_t base, int64_t width) {
  uint64_t mine = ~uint64_t{0};
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const uint64_t key = key_of(load(x, base + i), i);
    if (key < mine) mine = key;
  }
  return block_reduce(mine, [](uint64_t a, uint64_t b) { return a < b ? a : b; });
}
// The largest key of a row below `before`.
__device__ inline uint64_t next_key(const Ref& x, int64_t base, int64_t width, uint64_t before) {
  uint64_t mine = 0;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) {
    const uint64_t key = key_of(load(x, base + i), i);
    if (key < before && key > mine) mine = key;
  }
  return block_reduce(mine, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
}

// Sorts keys, the largest first, by a block; `count` is a power of two.
__device__ inline void sort_keys(uint64_t* keys, int64_t count) {
  for (int64_t size = 2; size <= count; size *= 2) {
    for (int64_t step = size / 2; step > 0; step /= 2) {
      for (int64_t i = threadIdx.x; i < count / 2; i += blockDim.x) {
        const int64_t first = i / step * 2 * step + i % step, second = first + step;
        const uint64_t a = keys[first], b = keys[second];
        if ((a < b) == !(first & size)) keys[first] = b, keys[second] = a;
      }
      __syncthreads();
    }
  }
}

// The largest value of a row, and the sum of exp(value - largest).
struct Softmax {
  double most, sum;
};
__device__ inline Softmax softmax_of(const Ref& x, int64_t base, int64_t width) {
  Softmax s{-INFINITY, 0};
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) s.most = fmax(s.most, load(x, base + i));
  s.most = block_max(s.most);
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) s.sum += exp(load(x, base + i) - s.most);
  s.sum = block_sum(s.sum);
  return s;
}

}  // namespace fkr
