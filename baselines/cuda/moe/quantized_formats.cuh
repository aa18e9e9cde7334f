// SPDX-License-Identifier: Apache-2.0
// Formats of weights of eight and of four bits, their scales, and the rounding of x to eight bits.
// Weights are widened to bfloat16 in registers.
#pragma once
#include "../parts/op.cuh"

namespace fkc {

namespace quantized {

__host__ __device__ constexpr uint32_t twice(uint32_t v) { return v << 16 | v; }
__device__ inline uint32_t lower_halves(uint32_t a, uint32_t b) { return __byte_perm(a, b, 0x5410); }
__device__ inline uint32_t upper_halves(uint32_t a, uint32_t b) { return __byte_perm(a, b, 0x7632); }

// e4m3 with a scale for block_n x block_k. Exponent and mantissa, moved to their place in bfloat16,
// are 2^-120 of the number, subnormal numbers too. Weights must not be NaN.
struct Fp8 {
  static constexpr int kUnit = 128, kPieces = 4, kRowBit = 1, kScaleBytes = 4;  // columns of a box; pieces of eight columns of a lane; of place()
  static constexpr bool kBlocks = true;
  __host__ __device__ static constexpr int64_t row_bytes(int64_t k) { return k; }
  struct Scale {
    float of[2][1];  // the rows of a lane
  };
  struct Factors {
    static constexpr bool large = false;
    __device__ explicit Factors(const Scale&) {}
  };
  // Widens eight columns, in the order with the fewest instructions: 0 and 2, 1 and 3, 4 and 6, 5
  // and 7. x has the same order.
  template <bool> __device__ static void widen(const uint32_t (&raw)[8], int piece, const Factors&, int, uint32_t (&to)[4]) {
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t word = raw[piece * 2 + i / 2];
      to[i] = (word & twice(0x7f)) << 4 | (word << 8 & twice(0x8000));
      to[i + 1] = (word >> 4 & twice(0x07f0)) | (word & twice(0x8000));
    }
#pragma unroll
    for (uint32_t& two : to) two = mul_bf16x2(two, twice((120 + 127) << 7));
  }
  __device__ static uint4 arranged(uint4 v) { return make_uint4(lower_halves(v.x, v.y), upper_halves(v.x, v.y), lower_halves(v.z, v.w), upper_halves(v.z, v.w)); }
};

// e2m1, low bits first, with a power of two for every 32. Moved in the same way, they are 2^-126 of
// the number.
struct Mxfp4 {
  static constexpr int kUnit = 256, kPieces = 8, kRowBit = 2, kScaleBytes = 1;
  static constexpr bool kBlocks = false;
  __host__ __device__ static constexpr int64_t row_bytes(int64_t k) { return k / 2; }
  struct Scale {
    uint8_t of[2][2];  // e8m0, for two rows and two times 32 columns of a lane
  };
  // The part of 2^126 times the scale which bfloat16 holds, and the rest, if any lane needs it.
  struct Factors {
    uint32_t power[2][2];
    const Scale& scale;
    bool large = false;
    __device__ explicit Factors(const Scale& s) : scale(s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint32_t bits = s.of[i / 2][i % 2];
        power[i / 2][i % 2] = twice(min(bits + 126, 254U) << 7), large |= bits > 128;
      }
      large = __any_sync(0xffffffffu, large);
    }
    __device__ uint32_t rest(int r, int l) const {
      const uint32_t bits = scale.of[r][l];
      return twice(bits == 255 ? 0x7fc0 : (max(bits, 128U) - 1) << 7);
    }
  };
  // Widens eight columns: 0 and 4, 1 and 5, 2 and 6, 3 and 7.
  template <bool kLarge> __device__ static void widen(const uint32_t (&raw)[8], int piece, const Factors& factors, int r, uint32_t (&to)[4]) {
    const uint32_t word = raw[piece];
    to[0] = (word & twice(7)) << 6 | (word << 12 & twice(0x8000));
    to[1] = (word & twice(0x70)) << 2 | (word << 8 & twice(0x8000));
    to[2] = (word & twice(0x700)) >> 2 | (word << 4 & twice(0x8000));
    to[3] = (word & twice(0x7000)) >> 6 | (word & twice(0x8000));
#pragma unroll
    for (uint32_t& two : to) {
      two = mul_bf16x2(two, factors.power[r][piece / 4]);
      if (kLarge) two = mul_bf16x2(two, factors.rest(r, piece / 4));
    }
  }
  __device__ static uint4 arranged(uint4 v) { return make_uint4(lower_halves(v.x, v.z), upper_halves(v.x, v.z), lower_halves(v.y, v.w), upper_halves(v.y, v.w)); }
};

struct Arguments {
  const __nv_bfloat16* x;
  const void* scale;
  Parameter<__nv_bfloat16> bias;
  const int32_t *row_ids, *offsets;
  __nv_bfloat16* out;
  int experts, top_k, n, k, block_n, block_k, scale_rows, scale_columns, rounds;  // n to scale_columns: of an expert. rounds: round x, in groups of 128
};

template <class W> struct Scales {
  const Arguments& a;
  __device__ int64_t row(int expert, int n) const { return (int64_t(expert) * a.scale_rows + (W::kBlocks ? n / a.block_n : n)) * a.scale_columns; }
  // The scales of a lane's columns of a box.
  __device__ void load(int64_t row, int box, int, float (&to)[1]) const {
    const int at = a.block_k == W::kUnit ? box : box * W::kUnit / a.block_k;
    if (at < a.scale_columns) to[0] = static_cast<const float*>(a.scale)[row + at];
  }
  __device__ void load(int64_t row, int box, int t, uint8_t (&to)[2]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      if (const int at = box * (W::kUnit / 32) + t * 2 + i; at < a.scale_columns) to[i] = static_cast<const uint8_t*>(a.scale)[row + at];
  }
};

// Rounding to e4m3, in units of the smallest power of two in which a group fits. `top`: the largest
// absolute value.
struct Rounding {
  float down, up;
  __device__ explicit Rounding(float top) {
    const uint32_t bits = __float_as_uint(top);
    const int unit = int(bits >> 23) - 126 - 9 + ((bits & 0x7fffff) > 0x600000);  // 448 = 0.875 * 2^9
    down = __uint_as_float(uint32_t(127 - unit) << 23), up = __uint_as_float(uint32_t(127 + unit) << 23);
  }
  // Adds and subtracts 1.5 * 2^23 times the last bit to keep, which is at least 2^-9. The sum has
  // no room for lower bits.
  __device__ __nv_bfloat16 operator()(float v) const {
    const float scaled = v * down;
    const float large = __uint_as_float(max(__float_as_uint(scaled) & 0x7f800000U, uint32_t(127 - 6) << 23) + (20U << 23) + 0x400000U);
    return from_float<__nv_bfloat16>((scaled + large - large) * up);
  }
};
constexpr float kLeastTop = 1e-10F;

// Rounds eight columns of a lane. 16 neighbouring lanes have the 128 columns of a group.
__device__ inline uint4 rounded(uint4 raw) {
  Vec8<__nv_bfloat16> p{raw};
  float top = kLeastTop;
#pragma unroll
  for (int i = 0; i < 8; ++i) top = fmaxf(top, fabsf(to_float(p.at[i])));
  top = warp_max<16>(top);
  const Rounding round(top);
#pragma unroll
  for (int i = 0; i < 8; ++i) p.at[i] = round(to_float(p.at[i]));
  return p.raw;
}

}  // namespace quantized

}  // namespace fkc
