// SPDX-License-Identifier: Apache-2.0
// Vectors of the level that is being compiled (level.hpp). A vector has kLanes floats. Loads and
// stores convert bf16 and f16; partial ones serve the ends of rows. The code uses the compiler's
// vector extensions, and intrinsics only where those give poor code. All functions are inlined into
// the kernels.
#pragma once
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <type_traits>

#include "level.hpp"

namespace fk::cpu {

// Storage types of elements, for overloads of load() and store().
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

namespace FK_CPU_LEVEL {

#if defined(__AVX512F__)
inline constexpr int64_t kLanes = 16;
#elif defined(__AVX2__)
inline constexpr int64_t kLanes = 8;
#else
inline constexpr int64_t kLanes = 4;
#endif

typedef float Vf __attribute__((vector_size(4 * kLanes)));
typedef int32_t Vi __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Vu __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Vh __attribute__((vector_size(2 * kLanes)));
// Vectors of double with half as many lanes. Vhalf has the floats that convert to them.
typedef double Vd __attribute__((vector_size(4 * kLanes)));
typedef int64_t Vl __attribute__((vector_size(4 * kLanes)));
typedef float Vhalf __attribute__((vector_size(2 * kLanes)));

// All lanes x.
FK_INLINE Vf splat(float x) { return Vf{} + x; }
template <class To, class From>
FK_INLINE To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
template <class V>
FK_INLINE V read(const void* from) {
  V v;
  __builtin_memcpy(&v, from, sizeof v);
  return v;
}

// Explicit conversion of 16-bit lanes: gcc 12's own works on halves of vectors.
FK_INLINE Vu widen(Vh h) {
#if defined(__AVX512F__)
  return (Vu)_mm512_cvtepu16_epi32(bits_as<__m256i>(h));
#elif defined(__AVX2__)
  return (Vu)_mm256_cvtepu16_epi32(bits_as<__m128i>(h));
#else
  return __builtin_convertvector(h, Vu);
#endif
}
FK_INLINE Vh narrow(Vu u) {
#if defined(__AVX512F__)
  return bits_as<Vh>(_mm512_cvtepi32_epi16((__m512i)u));
#else
  return __builtin_convertvector(u, Vh);
#endif
}
FK_INLINE Vf widen_bf16(Vh h) { return bits_as<Vf>(widen(h) << 16); }
// Rounds to nearest, ties to even; NaN stays a quiet NaN.
FK_INLINE Vh narrow_bf16(Vf v) {
  const Vu u = bits_as<Vu>(v);
  const Vu rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const Vu quiet = (u >> 16) | 0x40u;
  return narrow((v != v) ? quiet : rounded);
}
FK_INLINE Vf widen_f16(Vh h) {
#if defined(__AVX512F__)
  return (Vf)_mm512_cvtph_ps(bits_as<__m256i>(h));
#elif defined(__F16C__)
  return (Vf)_mm256_cvtph_ps(bits_as<__m128i>(h));
#else
  Vf v;
  for (int i = 0; i < kLanes; ++i)
    v[i] = static_cast<float>(bits_as<_Float16>(static_cast<uint16_t>(h[i])));
  return v;
#endif
}
FK_INLINE Vh narrow_f16(Vf v) {
#if defined(__AVX512F__)
  return bits_as<Vh>(_mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
  return bits_as<Vh>(_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT));
#else
  Vh h;
  for (int i = 0; i < kLanes; ++i) h[i] = bits_as<uint16_t>(static_cast<_Float16>(v[i]));
  return h;
#endif
}

FK_INLINE Vf load(const float* p) { return read<Vf>(p); }
FK_INLINE Vf load(const Bf16* p) { return widen_bf16(read<Vh>(p)); }
FK_INLINE Vf load(const F16* p) { return widen_f16(read<Vh>(p)); }
FK_INLINE void store(float* p, Vf v) { __builtin_memcpy(p, &v, sizeof v); }
FK_INLINE void store(Bf16* p, Vf v) {
  const Vh h = narrow_bf16(v);
  __builtin_memcpy(p, &h, sizeof h);
}
FK_INLINE void store(F16* p, Vf v) {
  const Vh h = narrow_f16(v);
  __builtin_memcpy(p, &h, sizeof h);
}

// Loads or stores the first n lanes, 0 <= n < kLanes. A load sets the other lanes to 0; a store
// leaves their memory as it is.
template <class T>
FK_INLINE Vf load_n(const T* p, int64_t n) {
#if defined(__AVX512F__)
  const uint32_t mask = (1u << n) - 1u;
  if constexpr (sizeof(T) == 4) {
    return (Vf)_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), p);
  } else {
    const Vh h = bits_as<Vh>(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask), p));
    return load(reinterpret_cast<const T*>(&h));
  }
#else
  T part[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return load(part);
#endif
}
template <class T>
FK_INLINE void store_n(T* p, Vf v, int64_t n) {
#if defined(__AVX512F__)
  const uint32_t mask = (1u << n) - 1u;
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>(mask), (__m512)v);
  } else {
    Vh h;
    store(reinterpret_cast<T*>(&h), v);
    _mm256_mask_storeu_epi16(p, static_cast<__mmask16>(mask), bits_as<__m256i>(h));
  }
#else
  T part[kLanes];
  store(part, v);
  for (int64_t i = 0; i < n; ++i) p[i] = part[i];
#endif
}

// Sums or maxima over the lanes, in a fixed order.
FK_INLINE float sum(Vf v) {
#if defined(__AVX512F__)
  return _mm512_reduce_add_ps((__m512)v);
#else
  float part[kLanes];
  store(part, v);
  for (int64_t w = kLanes / 2; w > 0; w /= 2) {
    for (int64_t i = 0; i < w; ++i) part[i] += part[i + w];
  }
  return part[0];
#endif
}
// Lane by lane. If only `a` is NaN the result is b; if `b` is NaN it is NaN.
FK_INLINE Vf max(Vf a, Vf b) { return a > b ? a : b; }
FK_INLINE Vf min(Vf a, Vf b) { return a < b ? a : b; }
FK_INLINE float max(Vf v) {
#if defined(__AVX512F__)
  return _mm512_reduce_max_ps((__m512)v);
#else
  float best = v[0];
  for (int64_t i = 1; i < kLanes; ++i) best = v[i] > best ? v[i] : best;
  return best;
#endif
}
FK_INLINE float root(float x) { return __builtin_sqrtf(x); }

FK_INLINE float to_float(float x) { return x; }
FK_INLINE float to_float(Bf16 x) { return bits_as<float>(static_cast<uint32_t>(x.bits) << 16); }
FK_INLINE float to_float(F16 x) { return static_cast<float>(bits_as<_Float16>(x.bits)); }

// Tags for a number of lanes: Full is kLanes, known at compile time; an int64_t is fewer.
struct Full {};
FK_INLINE int64_t lanes(Full) { return kLanes; }
FK_INLINE int64_t lanes(int64_t n) { return n; }
template <class T>
FK_INLINE Vf load(const T* p, Full) {
  return load(p);
}
template <class T>
FK_INLINE Vf load(const T* p, int64_t n) {
  return load_n(p, n);
}
template <class T>
FK_INLINE void store(T* p, Vf v, Full) {
  store(p, v);
}
template <class T>
FK_INLINE void store(T* p, Vf v, int64_t n) {
  store_n(p, v, n);
}

// Calls body(i, Full{}) for each whole vector of `count` elements and body(i, n) for the n elements
// that remain.
template <class Body>
FK_INLINE void each_vector(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) body(i, Full{});
  if (i < count) body(i, count - i);
}

// Calls body.operator()<T>() with the element type of a Type of op.hpp: 0 f32, 1 bf16, 2 f16.
template <class Body>
FK_INLINE void with_type(int type, Body body) {
  if (type == 0)
    body.template operator()<float>();
  else if (type == 1)
    body.template operator()<Bf16>();
  else
    body.template operator()<F16>();
}

}  // namespace FK_CPU_LEVEL
}  // namespace fk::cpu
