// SPDX-License-Identifier: Apache-2.0
// quantize_fp8, quantize_int8, dequantize: eight elements per thread.
#include "fk/ops/dequantize.h"
#include "fk/ops/quantize_fp8.h"
#include "fk/ops/quantize_int8.h"
#include "quantize.cuh"

namespace {
using namespace fkc;

__device__ float from_f8e4m3(uint32_t code) {
  const uint32_t magnitude = code & 0x7fU;
  if (magnitude == 0x7fU) return __uint_as_float(0x7fc00000U);
  const float size = magnitude < 8 ? float(magnitude) * 0x1p-9F
                                   : __uint_as_float((magnitude << 20) + (120U << 23));
  return code & 0x80U ? -size : size;
}

struct QuantizeFp8 : Base<fk::quantize_fp8> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need_aligned(max.x);
    need_groups(max.x->shape[0], init.size, init.group_rows, init.group_columns, max.scale.or_null);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    dispatch(a.x, [&](auto type) {
      const PlainRows<decltype(type)> source{fk::data<decltype(type)>(a.x), a.x->strides[0]};
      run_quantize<false>(a, source, ctx, init.group_rows, init.group_columns, 448.F,
                          float(init.eps), init.power_of_two != 0);
    });
  }
};
struct QuantizeInt8 : Base<fk::quantize_int8> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need_aligned(max.x);
    need_groups(max.x->shape[0], init.size, init.group_rows, init.size, max.scale.or_null);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    dispatch(a.x, [&](auto type) {
      const PlainRows<decltype(type)> source{fk::data<decltype(type)>(a.x), a.x->strides[0]};
      run_quantize<true>(a, source, ctx, init.group_rows, init.size, 127.F, 0.F, false);
    });
  }
};

template <class T, bool kWhole>
__global__ void __launch_bounds__(kItemThreads)
    dequantize(const uint8_t* x, const float* scales, T* out, int64_t vectors, int row_vectors,
               int64_t group_rows, int64_t group_columns, int64_t across) {
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
      launch(kernel, blocks_of(vectors), kItemThreads, 0, ctx, fk::data<uint8_t>(a.x),
             fk::data<float>(a.scale), fk::data<T>(a.out), vectors, int(init.size / 8),
             init.group_rows, init.group_columns, a.scale->shape[1]);
    });
  }
};
FK_OP(quantize_fp8, QuantizeFp8);
FK_OP(quantize_int8, QuantizeInt8);
FK_OP(dequantize, Dequantize);
}  // namespace
