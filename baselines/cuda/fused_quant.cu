// SPDX-License-Identifier: Apache-2.0
// silu_and_mul_quantize and add_rms_norm_quantize: the values of the first op stay in registers
// until they are codes of f8e4m3.
#include "fk/ops/add_rms_norm_quantize.h"
#include "fk/ops/silu_and_mul_quantize.h"
#include "quantize.cuh"

namespace {
using namespace fkc;

// Gates, then values, in rows of twice `size` elements.
template <class T>
struct GatedRows {
  const T* x;
  int64_t size;
  __device__ void load(int64_t row, int column, float (&to)[8]) const {
    const T* const from = x + row * 2 * size + column;
    float up[8];
    load_floats(from, to);
    load_floats(from + size, up);
#pragma unroll
    for (int k = 0; k < 8; ++k) to[k] = silu(to[k]) * up[k];
  }
};
struct SiluAndMulQuantize : Base<fk::silu_and_mul_quantize> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need_groups(max.x->shape[0], init.size, init.group_rows, init.group_columns, max.scale.or_null);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    dispatch(a.x, [&](auto type) {
      const GatedRows<decltype(type)> source{fk::data<decltype(type)>(a.x), init.size};
      run_quantize<false>(a, source, ctx, init.group_rows, init.group_columns, 448.F,
                          float(init.eps), init.power_of_two != 0);
    });
  }
};

// A block has a row. `lanes`: neighbouring threads with a group of columns, a power of two; 0: the
// row is one group. `given` may be null, and has one scale if `one_scale`.
template <class T, int kPer>
__global__ void __launch_bounds__(kQuantThreadsMax)
    norm_quantize(const T* x, T* residual, Parameter<T> weight, const float* given, uint8_t* out,
                  float* scale_out, int vectors, int lanes, float eps, int power_of_two,
                  int one_scale) {
  wait_for_inputs();
  const int64_t row = blockIdx.x, base = row * vectors * 8;
  float values[kPer][8] = {}, sum = 0, top = 0;
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * int(blockDim.x) + int(threadIdx.x);
    if (i >= vectors) continue;
    load_floats(x + base + i * 8, values[p]);
    if (residual) {
      float r[8];
      load_floats(residual + base + i * 8, r);
#pragma unroll
      for (int k = 0; k < 8; ++k) values[p][k] += r[k];
      store_floats(residual + base + i * 8, values[p]);
    }
#pragma unroll
    for (int k = 0; k < 8; ++k) sum += values[p][k] * values[p][k];
  }
  const float norm = rsqrtf(block_sum(sum) / float(vectors * 8) + eps);
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * int(blockDim.x) + int(threadIdx.x);
    if (i >= vectors) continue;
    float w[8];
    weight.load(i * 8, 1, w);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      values[p][k] *= norm * w[k];
      top = fmaxf(top, fabsf(values[p][k]));
    }
  }
  if (!given && !lanes) top = block_top(top);
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * int(blockDim.x) + int(threadIdx.x);
    float of_group = top;
    if (!given && lanes) {  // all lanes of a warp take part
      of_group = 0;
#pragma unroll
      for (int k = 0; k < 8; ++k) of_group = fmaxf(of_group, fabsf(values[p][k]));
      for (int k = lanes / 2; k > 0; k /= 2)
        of_group = fmaxf(of_group, __shfl_xor_sync(kAllLanes, of_group, k));
    }
    if (i >= vectors) continue;
    const int64_t group = lanes ? row * (vectors / lanes) + i / lanes : row;
    const float scale =
        given ? given[one_scale ? 0 : group] : scale_of(of_group, 1e-10F, 448.F, power_of_two);
    const bool first = lanes ? i % lanes == 0 : i == 0;
    if (first && (!one_scale || row == 0)) scale_out[one_scale ? 0 : group] = scale;
    *reinterpret_cast<uint2*>(out + base + i * 8) =
        codes_of<false>(values[p], scale > 0.F ? 1.F / scale : 0.F);
  }
}
struct AddRmsNormQuantize : Base<fk::add_rms_norm_quantize> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    const int64_t columns = init.group_columns, lanes = columns / 8;
    need_16bit(max.x);
    need_parameter(weights.weight, max.x);
    need(!max.residual.or_null || FK_DTYPE(max.residual.or_null) == FK_DTYPE(max.x),
         "residual: the dtype of x only");
    need_groups(max.x->shape[0], init.hidden_size, init.group_rows, columns, max.scale.or_null);
    need(init.hidden_size <= kQuantWidthMax, "hidden_size: up to 16384");
    need(columns == init.hidden_size || (lanes <= 32 && (lanes & (lanes - 1)) == 0),
         "group_columns: hidden_size, or a power of two from 8 to 256");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.x->shape[0];
    if (!rows) return;
    const int vectors = int(init.hidden_size / 8);
    const int per = vectors <= kQuantThreadsMax ? 1 : kQuantPerMax;
    const int threads = int(cdiv(cdiv(vectors, per), 32) * 32);
    const int lanes = init.group_columns == init.hidden_size ? 0 : int(init.group_columns / 8);
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      const fk_out* const residual = a.residual.or_null;
      launch(per == 1 ? norm_quantize<T, 1> : norm_quantize<T, kQuantPerMax>, unsigned(rows),
             threads, 0, ctx, fk::data<T>(a.x), residual ? fk::data<T>(residual) : nullptr,
             parameter<T>(weights.weight),
             a.scale.or_null ? fk::data<float>(a.scale.or_null) : nullptr, fk::data<uint8_t>(a.out),
             fk::data<float>(a.scale_out), vectors, lanes, float(init.eps), int(init.power_of_two),
             int(init.group_rows > 1));
    });
  }
};
FK_OP(silu_and_mul_quantize, SiluAndMulQuantize);
FK_OP(add_rms_norm_quantize, AddRmsNormQuantize);

}  // namespace
