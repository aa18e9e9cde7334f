// SPDX-License-Identifier: Apache-2.0
// Codes of f8e4m3 and int8 with scales of groups. Some lanes of a warp, or a block, have a group of
// columns. Its values stay in registers from the maximum to the codes.
#pragma once
#include "parts/op.cuh"

namespace fkc {

constexpr int kQuantThreads = 128, kQuantThreadsMax = 512, kQuantPerMax = 4;
constexpr int64_t kQuantWidthMax = int64_t{kQuantThreadsMax} * kQuantPerMax * 8;

// The code of f8e4m3, saturated at 448; a NaN stays a NaN. Adding a number so much larger rounds to
// four significant bits, and to multiples of 2^-9.
__device__ inline uint32_t to_f8e4m3(float v) {
  const uint32_t sign = __float_as_uint(v) >> 24 & 0x80U;
  if (v != v) return 0x7fU | sign;
  const float size = fminf(fabsf(v), 448.F);
  const uint32_t exponent = max(__float_as_uint(size) & 0x7f800000U, 121U << 23);
  const float large = __uint_as_float(exponent + (20U << 23)) * 1.5F;
  const float even = __fsub_rn(__fadd_rn(size, large), large);
  const uint32_t code =
      even < 0x1p-6F ? uint32_t(even * 512.F) : (__float_as_uint(even) >> 20) - 960U;
  return code | sign;
}
__device__ inline uint32_t to_int8(float v) {
  return uint32_t(int(rintf(fminf(fmaxf(v, -128.F), 127.F)))) & 0xffU;
}

template <bool kWhole>
__device__ uint2 codes_of(const float (&v)[8], float inverse) {
  uint32_t words[2] = {0, 0};
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float scaled = v[k] * inverse;
    words[k / 4] |= (kWhole ? to_int8(scaled) : to_f8e4m3(scaled)) << (k % 4 * 8);
  }
  return make_uint2(words[0], words[1]);
}

// The largest value of a block, in each of its threads.
__device__ inline float block_top(float v) {
  __shared__ float warp[32];
  for (int k = 16; k > 0; k /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, k));
  if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? warp[threadIdx.x % 32] : 0.F;
  for (int k = 16; k > 0; k /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, k));
  return v;
}

// The scale of a group whose largest value is `top`.
__device__ inline float scale_of(float top, float eps, float largest, bool power_of_two) {
  const float scale = fmaxf(top, eps) / largest;
  // Rounds up: any bit of the mantissa raises the exponent.
  return power_of_two ? __uint_as_float((__float_as_uint(scale) + 0x7fffffU) & 0x7f800000U) : scale;
}

// The groups of a call. A group has `vectors` vectors of eight columns and `lanes` threads.
struct QuantGroups {
  int64_t rows;
  int across, vectors, lanes;
  float largest, eps;  // the largest code; least size of a group's largest value
  int power_of_two;
  int one_scale;  // a static scale for all groups
};
// source.load(row, column, to) gives eight values.
template <class Source, bool kWhole, int kPer>
__global__ void __launch_bounds__(kQuantThreadsMax)
    quantize(QuantGroups g, Source source, const float* given, uint8_t* out, float* scale_out) {
  wait_for_inputs();
  const int64_t group =
      int64_t(blockIdx.x) * (int(blockDim.x) / g.lanes) + int(threadIdx.x) / g.lanes;
  const int lane = int(threadIdx.x) % g.lanes;
  const int64_t row = group / g.across, column = group % g.across * g.vectors * 8;
  const bool mine = row < g.rows;
  float values[kPer][8], top = 0;
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * g.lanes + lane;
    if (!mine || i >= g.vectors) continue;
    source.load(row, int(column) + i * 8, values[p]);
#pragma unroll
    for (int k = 0; k < 8; ++k) top = fmaxf(top, fabsf(values[p][k]));
  }
  float scale;
  if (given) {
    scale = mine ? given[g.one_scale ? 0 : group] : 1.F;
  } else {
    if (g.lanes > 32) {
      top = block_top(top);
    } else {
      for (int k = g.lanes / 2; k > 0; k /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, k));
    }
    scale = scale_of(top, g.eps, g.largest, g.power_of_two);
  }
  if (!mine) return;
  if (lane == 0 && (!g.one_scale || group == 0)) scale_out[group] = scale;
  const float inverse = scale > 0.F ? 1.F / scale : 0.F;
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * g.lanes + lane;
    if (i >= g.vectors) continue;
    *reinterpret_cast<uint2*>(out + (row * g.across * g.vectors + column / 8 + i) * 8) =
        codes_of<kWhole>(values[p], inverse);
  }
}

inline void need_groups(int64_t rows_max, int64_t size, int64_t group_rows, int64_t columns,
                        bool given) {
  const int64_t vectors = columns / 8;
  need(group_rows == 1 || (given && group_rows >= rows_max && columns == size),
       "scales of tokens, or one static scale");
  need(size % 8 == 0 && columns % 8 == 0 && size % columns == 0,
       "columns: multiples of 8, in whole groups");
  need(columns <= kQuantWidthMax, "a group has at most 16384 columns");
  need(vectors > 32 || (vectors & (vectors - 1)) == 0 || columns == size,
       "small groups: a power of two of columns");
}
template <bool kWhole, class Source, class Op>
void run_quantize(const Op& a, const Source& source, const fk_ctx& ctx, int64_t group_rows,
                  int64_t columns, float largest, float eps, bool power_of_two) {
  QuantGroups g{};
  g.rows = a.x->shape[0];
  g.across = int(a.scale_out->shape[1]), g.vectors = int(columns / 8);
  g.largest = largest, g.eps = eps, g.power_of_two = power_of_two, g.one_scale = group_rows > 1;
  if (!g.rows) return;
  const int per = g.vectors <= kQuantThreadsMax ? 1 : kQuantPerMax;
  for (g.lanes = 1; g.lanes < g.vectors && g.lanes < 32;) g.lanes *= 2;
  if (g.vectors > 32) g.lanes = int(cdiv(cdiv(g.vectors, per), 32) * 32);
  const int threads = g.lanes > 32 ? g.lanes : kQuantThreads;
  const unsigned blocks = unsigned(cdiv(g.rows * g.across, threads / g.lanes));
  const auto kernel =
      per == 1 ? quantize<Source, kWhole, 1> : quantize<Source, kWhole, kQuantPerMax>;
  const float* given = a.scale.or_null ? fk::data<float>(a.scale.or_null) : nullptr;
  launch(kernel, blocks, threads, 0, ctx, g, source, given, fk::data<uint8_t>(a.out),
         fk::data<float>(a.scale_out));
}

// Rows of a tensor, `step` elements apart.
template <class T>
struct PlainRows {
  const T* x;
  int64_t step;
  __device__ void load(int64_t row, int column, float (&to)[8]) const {
    load_floats(x + row * step + column, to);
  }
};

}  // namespace fkc
