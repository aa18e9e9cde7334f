// SPDX-License-Identifier: Apache-2.0
// Words which carry their own flag, for memory of zeros: a word without a zero part has arrived, in
// one trip. The only value which would be sent as zero is minus zero, and it arrives as plus zero.
#pragma once
#include "ranks.cuh"

namespace fkc {

template <class T>
inline constexpr uint32_t kMinusZeros = sizeof(T) == 4 ? 0x80000000u : 0x80008000u;

template <class T>
__device__ inline uint4 sendable(uint4 v) {
  constexpr uint32_t kZ = kMinusZeros<T>;
  const auto one = [](uint32_t w) { return w == kZ ? kZ : w ^ kZ; };
  return {one(v.x), one(v.y), one(v.z), one(v.w)};
}
template <class T>
__device__ inline uint4 sent(uint4 v) {
  constexpr uint32_t kZ = kMinusZeros<T>;
  return {v.x ^ kZ, v.y ^ kZ, v.z ^ kZ, v.w ^ kZ};
}
__device__ inline bool whole(uint4 v) { return v.x != 0 && v.y != 0 && v.z != 0 && v.w != 0; }

}  // namespace fkc
