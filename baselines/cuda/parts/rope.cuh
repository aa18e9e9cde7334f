// SPDX-License-Identifier: Apache-2.0
// Rotary embedding: pairs of elements of a head, rotated by angles from a table.
#pragma once
#include "vector.cuh"

namespace fkc {

// Eight angles. In the table, sines stand `sines` elements behind their cosines.
struct Angles {
  float cosine[8], sine[8];
  __device__ Angles(const float* table, int sines) {
#pragma unroll
    for (int j = 0; j < 8; j += 4) {
      *reinterpret_cast<float4*>(cosine + j) = *reinterpret_cast<const float4*>(table + j);
      *reinterpret_cast<float4*>(sine + j) = *reinterpret_cast<const float4*>(table + sines + j);
    }
  }
};
// Eight pairs: element j of `a` with element j of `b`, or neighbours if kInterleaved.
template <bool kInterleaved = false, class T>
__device__ void rotate_pairs(Vec8<T>& a, Vec8<T>& b, const Angles& by) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    T &first = kInterleaved ? (j < 4 ? a : b).at[j % 4 * 2] : a.at[j],
      &second = kInterleaved ? (j < 4 ? a : b).at[j % 4 * 2 + 1] : b.at[j];
    const float u = to_float(first), w = to_float(second);
    first = from_float<T>(u * by.cosine[j] - w * by.sine[j]);
    second = from_float<T>(w * by.cosine[j] + u * by.sine[j]);
  }
}
// Two neighbours of the lower half of a head, and their partners in the upper half.
template <class T>
__device__ void rotate_two(uint32_t& low, uint32_t& high, float2 cosine, float2 sine) {
  const T* a = reinterpret_cast<const T*>(&low);
  const T* b = reinterpret_cast<const T*>(&high);
  const float u0 = to_float(a[0]), u1 = to_float(a[1]), w0 = to_float(b[0]), w1 = to_float(b[1]);
  low = pack2<T>(u0 * cosine.x - w0 * sine.x, u1 * cosine.y - w1 * sine.y);
  high = pack2<T>(w0 * cosine.x + u0 * sine.x, w1 * cosine.y + u1 * sine.y);
}

}  // namespace fkc
