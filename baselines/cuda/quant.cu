// SPDX-License-Identifier: Apache-2.0
// quantize_fp8, quantize_int8, dequantize: eight elements per thread. Some lanes of a warp, or a
// block, have a group of columns. Its values stay in registers from the maximum to the codes.
#include "fk/ops/dequantize.h"
#include "fk/ops/quantize_fp8.h"
#include "fk/ops/quantize_int8.h"
#include "parts/op.cuh"

namespace {
using namespace fkc;
constexpr int kThreads = 128, kThreadsMax = 512, kPerMax = 4;
constexpr int64_t kWidthMax = int64_t{kThreadsMax} * kPerMax * 8;

// The code of f8e4m3, saturated at 448; a NaN stays a NaN. Adding a number so much larger rounds to
// four significant bits, and to multiples of 2^-9.
__device__ uint32_t to_f8e4m3(float v) {
  const uint32_t sign = __float_as_uint(v) >> 24 & 0x80U;
  if (v != v) return 0x7fU | sign;
  const float size = fminf(fabsf(v), 448.F);
  const uint32_t exponent = max(__float_as_uint(size) & 0x7f800000U, 121U << 23);
  const float large = __uint_as_float(exponent + (20U << 23)) * 1.5F;
  const float even = __fsub_rn(__fadd_rn(size, large), large);
  const uint32_t code = even < 0x1p-6F ? uint32_t(even * 512.F) : (__float_as_uint(even) >> 20) - 960U;
  return code | sign;
}
__device__ uint32_t to_int8(float v) {
  return uint32_t(int(rintf(fminf(fmaxf(v, -128.F), 127.F)))) & 0xffU;
}
__device__ float from_f8e4m3(uint32_t code) {
  const uint32_t magnitude = code & 0x7fU;
  if (magnitude == 0x7fU) return __uint_as_float(0x7fc00000U);
  const float size = magnitude < 8 ? float(magnitude) * 0x1p-9F : __uint_as_float((magnitude << 20) + (120U << 23));
  return code & 0x80U ? -size : size;
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
__device__ float block_top(float v) {
  __shared__ float warp[32];
  for (int k = 16; k > 0; k /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, k));
  if (threadIdx.x % 32 == 0) warp[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? warp[threadIdx.x % 32] : 0.F;
  for (int k = 16; k > 0; k /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffffU, v, k));
  return v;
}

// The groups of a call. A group has `vectors` vectors of eight columns and `lanes` threads.
struct Groups {
  int64_t rows, step;  // step: elements from one row of x to the next
  int across, vectors, lanes;
  float largest, eps;  // the largest code; least size of a group's largest value
  int power_of_two;
  int one_scale;  // a static scale for all groups
};
template <class T, bool kWhole, int kPer>
__global__ void __launch_bounds__(kThreadsMax) quantize(Groups g, const T* x, const float* given, uint8_t* out, float* scale_out) {
  wait_for_inputs();
  const int64_t group = int64_t(blockIdx.x) * (int(blockDim.x) / g.lanes) + int(threadIdx.x) / g.lanes;
  const int lane = int(threadIdx.x) % g.lanes;
  const int64_t row = group / g.across, column = group % g.across * g.vectors * 8;
  const bool mine = row < g.rows;
  float values[kPer][8], top = 0;
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * g.lanes + lane;
    if (!mine || i >= g.vectors) continue;
    load_floats(x + row * g.step + column + i * 8, values[p]);
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
      for (int k = g.lanes / 2; k > 0; k /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffU, top, k));
    }
    scale = fmaxf(top, g.eps) / g.largest;
    // Rounds up: any bit of the mantissa raises the exponent.
    if (g.power_of_two) scale = __uint_as_float((__float_as_uint(scale) + 0x7fffffU) & 0x7f800000U);
  }
  if (!mine) return;
  if (lane == 0 && (!g.one_scale || group == 0)) scale_out[group] = scale;
  const float inverse = scale > 0.F ? 1.F / scale : 0.F;
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * g.lanes + lane;
    if (i >= g.vectors) continue;
    *reinterpret_cast<uint2*>(out + (row * g.across * g.vectors + column / 8 + i) * 8) = codes_of<kWhole>(values[p], inverse);
  }
}

void need_groups(int64_t rows_max, int64_t size, int64_t group_rows, int64_t columns, bool given) {
  const int64_t vectors = columns / 8;
  need(group_rows == 1 || (given && group_rows >= rows_max && columns == size), "scales of tokens, or one static scale");
  need(size % 8 == 0 && columns % 8 == 0 && size % columns == 0, "columns: multiples of 8, in whole groups");
  need(columns <= kWidthMax, "a group has at most 16384 columns");
  need(vectors > 32 || (vectors & (vectors - 1)) == 0 || columns == size, "small groups: a power of two of columns");
}
template <bool kWhole, class Op>
void run(const Op& a, const fk_ctx& ctx, int64_t group_rows, int64_t columns, float largest, float eps, bool power_of_two) {
  Groups g{};
  g.rows = a.x->shape[0], g.step = a.x->strides[0];
  g.across = int(a.scale_out->shape[1]), g.vectors = int(columns / 8);
  g.largest = largest, g.eps = eps, g.power_of_two = power_of_two, g.one_scale = group_rows > 1;
  if (!g.rows) return;
  const int per = g.vectors <= kThreadsMax ? 1 : kPerMax;
  for (g.lanes = 1; g.lanes < g.vectors && g.lanes < 32;) g.lanes *= 2;
  if (g.vectors > 32) g.lanes = int(cdiv(cdiv(g.vectors, per), 32) * 32);
  const int threads = g.lanes > 32 ? g.lanes : kThreads;
  const unsigned blocks = unsigned(cdiv(g.rows * g.across, threads / g.lanes));
  dispatch(a.x, [&](auto type) {
    using T = decltype(type);
    const auto kernel = per == 1 ? quantize<T, kWhole, 1> : quantize<T, kWhole, kPerMax>;
    const float* given = a.scale.or_null ? fk::data<float>(a.scale.or_null) : nullptr;
    launch(kernel, blocks, threads, 0, ctx, g, fk::data<T>(a.x), given, fk::data<uint8_t>(a.out), fk::data<float>(a.scale_out));
  });
}

struct QuantizeFp8 : Base<fk::quantize_fp8> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need_aligned(max.x);
    need_groups(max.x->shape[0], init.size, init.group_rows, init.group_columns, max.scale.or_null);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    run<false>(a, ctx, init.group_rows, init.group_columns, 448.F, float(init.eps), init.power_of_two != 0);
  }
};
struct QuantizeInt8 : Base<fk::quantize_int8> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need_aligned(max.x);
    need_groups(max.x->shape[0], init.size, init.group_rows, init.size, max.scale.or_null);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) { run<true>(a, ctx, init.group_rows, init.size, 127.F, 0.F, false); }
};

template <class T, bool kWhole>
__global__ void __launch_bounds__(kItemThreads) dequantize(const uint8_t* x, const float* scales, T* out, int64_t vectors, int row_vectors, int64_t group_rows,
                                                           int64_t group_columns, int64_t across) {
  wait_for_inputs();
  const int64_t i = item_of_thread();
  if (i >= vectors) return;
  const int64_t row = i / row_vectors, column = i % row_vectors * 8;
  const float scale = scales[row / group_rows * across + column / group_columns];
  const uint2 two = reinterpret_cast<const uint2*>(x)[i];
  Vec8<T> o;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const uint32_t code = (k < 4 ? two.x : two.y) >> (k % 4 * 8) & 0xffU;
    o.at[k] = from_float<T>((kWhole ? float(int8_t(code)) : from_f8e4m3(code)) * scale);
  }
  store8(out + i * 8, o);
}
struct Dequantize : Base<fk::dequantize> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(fk_as_in(max.out));
    need(init.size % 8 == 0 && init.group_columns % 8 == 0, "columns: multiples of 8");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t vectors = fk_numel(a.x) / 8;
    if (!vectors) return;
    dispatch(fk_as_in(a.out), [&](auto type) {
      using T = decltype(type);
      const auto kernel = FK_DTYPE(a.x) == FK_I8 ? dequantize<T, true> : dequantize<T, false>;
      launch(kernel, blocks_of(vectors), kItemThreads, 0, ctx, fk::data<uint8_t>(a.x), fk::data<float>(a.scale), fk::data<T>(a.out), vectors,
             int(init.size / 8), init.group_rows, init.group_columns, a.scale->shape[1]);
    });
  }
};
FK_OP(quantize_fp8, QuantizeFp8);
FK_OP(quantize_int8, QuantizeInt8);
FK_OP(dequantize, Dequantize);
}  // namespace
