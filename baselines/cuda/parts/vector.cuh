// SPDX-License-Identifier: Apache-2.0
// Vectors of neighbouring elements, and their loads and stores. Addresses are multiples of the
// vector's bytes.
#pragma once
#include "convert.cuh"

namespace fkc {

// Eight elements of 16 bits.
template <class T>
union Vec8 {
  uint4 raw;
  T at[8];
};
template <class T>
__device__ Vec8<T> load8(const T* from) {
  Vec8<T> p;
  p.raw = *reinterpret_cast<const uint4*>(from);
  return p;
}
template <class T>
__device__ void store8(T* to, const Vec8<T>& p) {
  *reinterpret_cast<uint4*>(to) = p.raw;
}

// Eight elements as float32.
__device__ inline void load_floats(const float* from, float (&to)[8]) {
#pragma unroll
  for (int k = 0; k < 8; k += 4) {
    const float4 v = *reinterpret_cast<const float4*>(from + k);
    to[k] = v.x, to[k + 1] = v.y, to[k + 2] = v.z, to[k + 3] = v.w;
  }
}
template <class T>
__device__ void load_floats(const T* from, float (&to)[8]) {
  const Vec8<T> p = load8(from);
#pragma unroll
  for (int k = 0; k < 8; ++k) to[k] = to_float(p.at[k]);
}
__device__ inline void store_floats(float* to, const float (&v)[8]) {
#pragma unroll
  for (int k = 0; k < 8; k += 4)
    *reinterpret_cast<float4*>(to + k) = make_float4(v[k], v[k + 1], v[k + 2], v[k + 3]);
}
template <class T>
__device__ void store_floats(T* to, const float (&v)[8]) {
  Vec8<T> p;
#pragma unroll
  for (int k = 0; k < 8; ++k) p.at[k] = from_float<T>(v[k]);
  store8(to, p);
}

// Four elements as float32.
template <class T>
union Vec4 {
  uint2 raw;
  T at[4];
};
__device__ inline void load_floats(const float* from, float (&to)[4]) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}
template <class T>
__device__ void load_floats(const T* from, float (&to)[4]) {
  Vec4<T> p;
  p.raw = *reinterpret_cast<const uint2*>(from);
#pragma unroll
  for (int k = 0; k < 4; ++k) to[k] = to_float(p.at[k]);
}
__device__ inline void store_floats(float* to, const float (&v)[4]) {
  *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
}
template <class T>
__device__ void store_floats(T* to, const float (&v)[4]) {
  Vec4<T> p;
#pragma unroll
  for (int k = 0; k < 4; ++k) p.at[k] = from_float<T>(v[k]);
  *reinterpret_cast<uint2*>(to) = p.raw;
}

// Two elements as float32.
__device__ inline void load_floats(const float* from, float& a, float& b) {
  const float2 v = *reinterpret_cast<const float2*>(from);
  a = v.x, b = v.y;
}
template <class T>
__device__ void load_floats(const T* from, float& a, float& b) {
  a = to_float(from[0]), b = to_float(from[1]);
}
__device__ inline void store_floats(float* to, float a, float b) {
  *reinterpret_cast<float2*>(to) = make_float2(a, b);
}
template <class T>
__device__ void store_floats(T* to, float a, float b) {
  *reinterpret_cast<uint32_t*>(to) = pack2<T>(a, b);
}

}  // namespace fkc
