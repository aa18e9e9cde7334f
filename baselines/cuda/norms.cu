// SPDX-License-Identifier: Apache-2.0
// rms_norm: one block per row, which stays in registers between the two passes.
#include "fk/ops/rms_norm.h"
#include "parts/op.cuh"

namespace {
using namespace fkc;
constexpr int kThreadsMax = 1024, kPerMax = 4;

// R: the type of the residual stream, T or float32.
template <class T, class R, int kPer>
__global__ void rms_norm(const T* x, R* residual, const T* weight, T* out, int vectors, float eps) {
  float w[kPer][8];
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * int(blockDim.x) + int(threadIdx.x);
#pragma unroll
    for (int k = 0; k < 8; ++k) w[p][k] = 1;
    if (weight && i < vectors) load_floats(weight + i * 8, w[p]);
  }
  wait_for_inputs();
  const int64_t base = int64_t(blockIdx.x) * vectors * 8;
  float values[kPer][8], sum = 0;
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
  const float scale = rsqrtf(block_sum(sum) / float(vectors * 8) + eps);
#pragma unroll
  for (int p = 0; p < kPer; ++p) {
    const int i = p * int(blockDim.x) + int(threadIdx.x);
    if (i >= vectors) continue;
#pragma unroll
    for (int k = 0; k < 8; ++k) values[p][k] *= scale * w[p][k];
    store_floats(out + base + i * 8, values[p]);
  }
}

struct RmsNorm : Base<fk::rms_norm> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_16bit(max.x);
    need(init.hidden_size % 8 == 0 && init.hidden_size <= kThreadsMax * kPerMax * 8,
         "hidden_size: a multiple of 8 up to 32768");
    need(!weights.weight.or_null || FK_DTYPE(weights.weight.or_null) == FK_DTYPE(max.x),
         "weight: the dtype of x only");
    const auto* const residual = max.residual.or_null;
    need(!residual || FK_DTYPE(residual) == FK_DTYPE(max.x) || FK_DTYPE(residual) == FK_F32,
         "residual: the dtype of x or float32 only");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t rows = a.x->shape[0];
    if (!rows) return;
    const int vectors = int(init.hidden_size / 8);
    const int per = vectors <= 512 || rows < 132 ? (vectors <= kThreadsMax       ? 1
                                                    : vectors <= 2 * kThreadsMax ? 2
                                                                                 : 4)
                                                 : (vectors <= 2 * kThreadsMax ? 2 : 4);
    const int threads = int(cdiv(cdiv(vectors, per), 32) * 32);
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      const auto of_residual = [&](auto* residual) {
        using R = std::remove_pointer_t<decltype(residual)>;
        const auto go = [&](auto kernel) {
          launch(kernel, unsigned(rows), threads, 0, ctx, fk::data<T>(a.x), residual,
                 fk::data<T>(weights.weight), fk::data<T>(a.out), vectors, float(init.eps));
        };
        per == 1 ? go(rms_norm<T, R, 1>) : per == 2 ? go(rms_norm<T, R, 2>) : go(rms_norm<T, R, 4>);
      };
      if (a.residual.or_null && FK_DTYPE(a.residual.or_null) == FK_F32)
        of_residual(fk::data<float>(a.residual));
      else
        of_residual(fk::data<T>(a.residual));
    });
  }
};
FK_OP(rms_norm, RmsNorm);

}  // namespace
