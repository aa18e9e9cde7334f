// SPDX-License-Identifier: Apache-2.0
// The kernels of fp8_block.hpp. They move a byte's exponent and mantissa into a float's fields.
// Subnormal values get the implicit bit of the smallest normal number, which is then subtracted:
// arithmetic on subnormal floats takes a hundred times as long.
#include "fp8_block.hpp"

#include "simd.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

namespace {

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

// Converts `count` values, times `scale`.
FK_INLINE void widen_part(const uint8_t* from, float scale, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, widen_fp8(from + i) * scale);
  if (i == count) return;
  uint8_t rest[kLanes] = {};
  for (int64_t j = i; j < count; ++j) rest[j - i] = from[j];
  store_n(to + i, widen_fp8(rest) * scale, count - i);
}

}  // namespace

void fp8_rows(const Fp8Matrix& m, int64_t begin, int64_t end, float* to, int64_t stride) {
  for (int64_t n = begin; n < end; ++n) {
    const float* scales = m.scales + n / m.block_n * m.across;
    float* row = to + (n - begin) * stride;
    for (int64_t b = 0; b < m.across; ++b) {
      const int64_t first = b * m.block_k, left = m.k - first;
      widen_part(m.weight + n * m.k + first, scales[b], left < m.block_k ? left : m.block_k,
                 row + first);
    }
  }
}

void fp8_input(const Fp8Row& a, float* to) {
  with_type(a.type, [&]<class T>() {
    const T* x = static_cast<const T*>(a.x);
    each_vector(a.k, [&](int64_t i, auto n) { store(to + i, load(x + i, n), n); });
  });
  for (int64_t first = 0; a.quantize && first < a.k; first += a.block_k) {
    const int64_t left = a.k - first, count = left < a.block_k ? left : a.block_k;
    Vf top{};
    each_vector(count, [&](int64_t i, auto n) {
      const Vf x = load(to + first + i, n);
      top = max(x < splat(0.f) ? -x : x, top);
    });
    const float unit = unit_of(max(top)), inverse = 1.f / unit;
    each_vector(count, [&](int64_t i, auto n) {
      store(to + first + i, round_fp8(load(to + first + i, n) * inverse) * unit, n);
    });
  }
}

}  // namespace fk::cpu::FK_CPU_LEVEL
