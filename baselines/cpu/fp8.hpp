// SPDX-License-Identifier: Apache-2.0
// Vectors of f8e4m3. A byte's exponent and mantissa move into a float's fields, and back. Subnormal
// values get the implicit bit of the smallest normal number, which is then subtracted: arithmetic
// on subnormal floats takes a hundred times as long.
#pragma once
#include "simd.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

typedef uint8_t Vb __attribute__((vector_size(kLanes)));

FK_INLINE Vf widen_fp8(const uint8_t* p) {
#if defined(__AVX512F__)
  const Vu u = (Vu)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__AVX2__)
  const Vu u = (Vu)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
  const Vu u = __builtin_convertvector(read<Vb>(p), Vu);
#endif
  const Vu magnitude = u & 0x7fu, low = magnitude < 8u ? Vu{} + 1u : Vu{};
  const Vf wide = bits_as<Vf>((magnitude << 20) + ((low + 120u) << 23));
  const Vf value = wide - bits_as<Vf>(low * 0x3c800000u);  // low * 2^-6
  const Vf signed_value = bits_as<Vf>(bits_as<Vu>(value) | (u & 0x80u) << 24);
  return magnitude == 0x7fu ? splat(__builtin_nanf("")) : signed_value;
}

// Rounds to a value of f8e4m3, for |x| <= 448. Adding a number this much larger rounds to four
// significant bits, and to multiples of 2^-9.
FK_INLINE Vf round_fp8(Vf x) {
  const Vu exponent = bits_as<Vu>(x) & 0x7f800000u;
  const Vu least = Vu{} + (121u << 23);  // 2^-6, the smallest normal number
  const Vf large = bits_as<Vf>((exponent > least ? exponent : least) + (20u << 23)) * 1.5f;
  return (x + large) - large;
}

// The smallest power of two u such that top <= 448 u.
FK_INLINE float unit_of(float top) {
  top = top > 1e-10f ? top : 1e-10f;
  const uint32_t bits = bits_as<uint32_t>(top);
  // 448 = 1.75 * 2^8: a mantissa above 1.75 needs the next power.
  const uint32_t exponent = (bits >> 23) - 8 + ((bits & 0x7fffffu) > 0x600000u ? 1 : 0);
  return bits_as<float>(exponent << 23);
}

// The low byte of each lane.
FK_INLINE void store_bytes(uint8_t* to, Vu v) {
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8((__m512i)v));
#else
  const Vb bytes = __builtin_convertvector(v & 0xffu, Vb);
  __builtin_memcpy(to, &bytes, sizeof bytes);
#endif
}
FK_INLINE void store_bytes(uint8_t* to, Vu v, Full) { store_bytes(to, v); }
FK_INLINE void store_bytes(uint8_t* to, Vu v, int64_t n) {
  uint8_t part[kLanes];
  store_bytes(part, v);
  for (int64_t i = 0; i < n; ++i) to[i] = part[i];
}

// Codes of f8e4m3, saturated at 448; a NaN stays a NaN.
FK_INLINE Vu narrow_fp8(Vf x) {
  const Vu bits = bits_as<Vu>(x), sign = bits >> 24 & 0x80u;
  const Vf size = min(bits_as<Vf>(bits & 0x7fffffffu), splat(448.f));
  const Vf even = round_fp8(size);
  const Vu normal = (bits_as<Vu>(even) >> 20) - 960u;  // exponents differ by 120
  const Vu small = bits_as<Vu>(even * 512.f + 8388608.f) & 0xffu;
  const Vu code = even < splat(0x1p-6f) ? small : normal;
  return (x != x ? Vu{} + 0x7fu : code) | sign;
}

}  // namespace fk::cpu::FK_CPU_LEVEL
