// SPDX-License-Identifier: Apache-2.0
// One element of the streams of random.hpp, for loops on a CPU and threads on a GPU. Both give the
// same bits: products and sums are not fused (a GPU needs -fmad=false), and nothing here calls a
// library.
#pragma once
#include <cstdint>

#ifdef __CUDACC__
#define FK_ELEMENT __host__ __device__ inline
#else
#define FK_ELEMENT inline __attribute__((always_inline))
#endif

namespace fk {

FK_ELEMENT void philox_rounds(uint32_t& c0, uint32_t& c1, uint32_t& c2, uint32_t& c3, uint32_t k0,
                              uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53} * c0;
    const uint64_t p1 = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(p1);
    c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

// -2 ln(u) for u = (word / 2^8 + 0.5) / 2^24; relative error below 1e-6.
FK_ELEMENT float minus_two_log(uint32_t word) {
  const float u = (static_cast<float>(static_cast<int32_t>(word >> 8)) + 0.5F) * 0x1p-24F;
  // u = m * 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh((m - 1) / (m + 1)).
  const auto bits = __builtin_bit_cast(uint32_t, u);
  const uint32_t shifted = bits - 0x3F3504F3;
  const auto exponent = static_cast<float>(static_cast<int32_t>(shifted) >> 23);
  const float m = __builtin_bit_cast(float, (shifted & 0x007F'FFFF) + 0x3F3504F3);
  const float s = (m - 1.0F) / (m + 1.0F);
  const float s2 = s * s;
  const float series =
      s * (2.0F + s2 * (0.666666667F + s2 * (0.4F + s2 * (0.285714286F + s2 * 0.222222222F))));
  const float result = -2.0F * (exponent * 0.693147181F + series);
  return result > 0.0F ? result : 0.0F;
}

// sin and cos of the angle word / 2^32 turns. The two top bits choose the quarter. The rest is
// centred, so the polynomials run over [-pi/4, pi/4].
FK_ELEMENT void sine_cosine(uint32_t word, float& sine, float& cosine) {
  const uint32_t quarter = word >> 30;
  const auto rest = static_cast<int32_t>(word << 2 >> 8) - (1 << 23);
  const float x = (static_cast<float>(rest) + 0.5F) * (0.785398163F * 0x1p-23F);
  const float x2 = x * x;
  const float s =
      x * (1.0F + x2 * (-1.66666667e-1F +
                        x2 * (8.33333333e-3F + x2 * (-1.98412698e-4F + x2 * 2.7557e-6F))));
  const float c =
      1.0F + x2 * (-0.5F + x2 * (4.16666667e-2F + x2 * (-1.38888889e-3F + x2 * 2.48015873e-5F)));
  const bool swap = (quarter & 1) != 0;
  const uint32_t sign = (quarter & 2) << 30;
  const float a = swap ? c : s;
  const float b = swap ? -s : c;
  sine = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, a) ^ sign);
  cosine = __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, b) ^ sign);
}

}  // namespace fk
