// SPDX-License-Identifier: Apache-2.0
// Numbers with their places as whole numbers of 64 bits, which sort as the numbers do.
#pragma once
#include "target.cuh"

namespace fkc {

// Larger values first, then lower indices; never 0.
__device__ inline unsigned long long sort_key(float value, uint32_t index) {
  using Key = unsigned long long;
  uint32_t bits = __float_as_uint(value);
  if (!(bits << 1)) bits = 0;  // both zeros are one; a comparison of floats would flush denormals
  return Key((bits & 0x80000000u) ? ~bits : bits | 0x80000000u) << 32 | (0xffffffffu - index);
}
__device__ inline uint32_t index_of_key(unsigned long long key) {
  return 0xffffffffu - uint32_t(key);
}

}  // namespace fkc
