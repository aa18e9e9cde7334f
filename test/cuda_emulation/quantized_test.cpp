// SPDX-License-Identifier: Apache-2.0
// Weights of eight and four bits in registers (baselines/cuda/moe/quantized_formats.cuh). Every
// value of eight bits, and every value of four bits with every scale, becomes its bfloat16 beside
// its column of x. Rounding to e4m3 gives the nearest number, and the even one of two.
#include <cuda/moe/quantized_formats.cuh>

#include <cmath>
#include <random>

#include "test/catch.hpp"

namespace {

using namespace fkc;
using namespace fkc::quantized;

// Eight columns of a warp's lanes, in the order of x.
template <class W>
std::array<float, 8> widened(const uint32_t (&raw)[8], int piece, const typename W::Scale& scale) {
  std::array<float, 8> got{};
  fk_emulation::run_grid(dim3(1), dim3(1), 32, 0, [&] {
    const typename W::Factors factors(scale);
    uint32_t wide[4];
    if (factors.large)
      W::template widen<true>(raw, piece, factors, 1, wide);
    else
      W::template widen<false>(raw, piece, factors, 1, wide);
    const uint4 v = W::arranged(make_uint4(0x10000, 0x30002, 0x50004, 0x70006));
    const uint32_t columns[4] = {v.x, v.y, v.z, v.w};
    for (unsigned i = 0; i < 8; ++i)
      got[columns[i / 2] >> i % 2 * 16 & 0xffff] = half_of<__nv_bfloat16>(wide[i / 2], i % 2);
  });
  return got;
}

float e4m3(unsigned bits) {
  const int exponent = bits >> 3 & 15;
  const float v =
      std::ldexp(static_cast<float>(bits & 7) + (exponent ? 8.F : 0.F), std::max(exponent, 1) - 10);
  return bits & 0x80 ? -v : v;
}

TEST_CASE("eight bits are widened") {
  for (unsigned first = 0; first < 256; first += 8) {
    uint32_t raw[8] = {};
    for (unsigned i = 0; i < 8; ++i) raw[4 + i / 4] |= (first + i) << i % 4 * 8;
    const auto got = widened<Fp8>(raw, 2, {});
    for (unsigned i = 0; i < 8; ++i)
      if (((first + i) & 0x7f) != 0x7f) CHECK(got[i] == e4m3(first + i));
  }
}

TEST_CASE("four bits are widened by their power of two") {
  const float values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (unsigned scale = 0; scale < 256; ++scale)
    for (const uint32_t word : {0x76543210U, 0xfedcba98U, 0x08192a3bU}) {
      uint32_t raw[8] = {};
      raw[5] = word;
      const auto got = widened<Mxfp4>(raw, 5, {{{127, 127}, {127, static_cast<uint8_t>(scale)}}});
      for (unsigned i = 0; i < 8; ++i) {
        const unsigned bits = word >> i * 4 & 15;
        const float value = std::ldexp(bits & 8 ? -values[bits & 7] : values[bits & 7],
                                       static_cast<int>(scale) - 127);
        INFO(scale << ' ' << bits);
        if (scale == 255)
          CHECK(std::isnan(got[i]));
        else
          CHECK(got[i] == value);
      }
    }
}

TEST_CASE("x is rounded to e4m3 in units of the least power of two in which it fits") {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const float top : {1e-12F, 1e-10F, 0.875F, 0.8750001F, 1.F, 3e4F, 1e30F}) {
    const auto unit =
        static_cast<float>(std::exp2(std::ceil(std::log2(std::max<double>(top, 1e-10) / 448))));
    const Rounding round(std::max(top, kLeastTop));
    for (int i = 0; i < 2000; ++i) {
      float v = std::clamp(std::ldexp(normal(random), -i % 24) * top, -top, top);
      if (i % 5 == 0)
        v = unit * (static_cast<float>(i % 33) - 16) * 0x1p-10F;  // halves of the last bit
      const float scaled = v / unit,
                  last = std::exp2(std::max(std::floor(std::log2(std::fabs(scaled))), -6.F) - 3);
      INFO(top << ' ' << v);
      CHECK(to_float(round(v)) == (v == 0 ? 0 : std::nearbyint(scaled / last) * last * unit));
    }
  }
}

}  // namespace
