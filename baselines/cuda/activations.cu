// SPDX-License-Identifier: Apache-2.0
// gelu, activation (silu and quick_gelu), swiglu_oai: eight results per thread. silu_and_mul is in elementwise.cu.
#define FK_ACTIVATION_EDITION 1
#include "fk/ops/activation.h"
#include "fk/ops/gelu.h"
#include "fk/ops/swiglu_oai.h"
#include "parts/op.cuh"

namespace {
using namespace fkc;

template <class T> __global__ void __launch_bounds__(kItemThreads) gelu(const T* x, T* out, int64_t vectors, int tanh_formula) {
  wait_for_inputs();
  const int64_t i = item_of_thread();
  if (i >= vectors) return;
  Vec8<T> v = load8(x + i * 8);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float a = to_float(v.at[k]);
    // (1 + tanh(u)) / 2 is the logistic function of 2 u.
    const float share = tanh_formula ? 1.F / (1.F + __expf(-1.5957691216F * (a + 0.044715F * a * a * a))) : 0.5F + 0.5F * erff(a * 0.70710678119F);
    v.at[k] = from_float<T>(a * share);
  }
  store8(out + i * 8, v);
}

// x times the logistic function of `steepness` times x.
template <class T> __global__ void __launch_bounds__(kItemThreads) gated_by_itself(const T* x, T* out, int64_t vectors, float steepness) {
  wait_for_inputs();
  const int64_t i = item_of_thread();
  if (i >= vectors) return;
  Vec8<T> v = load8(x + i * 8);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float a = to_float(v.at[k]);
    v.at[k] = from_float<T>(a / (1.F + __expf(-steepness * a)));
  }
  store8(out + i * 8, v);
}

// Neighbouring columns are gate and up.
template <class T>
__global__ void __launch_bounds__(kItemThreads) swiglu_oai(const T* x, T* out, int64_t vectors, float alpha, float limit) {
  wait_for_inputs();
  const int64_t i = item_of_thread();
  if (i >= vectors) return;
  const Vec8<T> pairs[2] = {load8(x + i * 16), load8(x + i * 16 + 8)};
  Vec8<T> o;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const float gate = fminf(to_float(pairs[k / 4].at[k % 4 * 2]), limit);
    const float up = fminf(fmaxf(to_float(pairs[k / 4].at[k % 4 * 2 + 1]), -limit), limit);
    o.at[k] = from_float<T>((up + 1.F) * gate / (1.F + __expf(-alpha * gate)));
  }
  store8(out + i * 8, o);
}

struct Gelu : Base<fk::gelu> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(init.size % 8 == 0, "size: a multiple of 8 only");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t vectors = fk_numel(a.x) / 8;
    if (!vectors) return;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(gelu<T>, blocks_of(vectors), kItemThreads, 0, ctx, fk::data<T>(a.x), fk::data<T>(a.out), vectors, int(init.approximate));
    });
  }
};
struct Activation : Base<fk::activation> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(init.size % 8 == 0, "size: a multiple of 8 only");
    need(init.kind == FK_ACTIVATION_KIND_SILU || init.kind == FK_ACTIVATION_KIND_QUICK_GELU, "kind: silu and quick_gelu only");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t vectors = fk_numel(a.x) / 8;
    if (!vectors) return;
    const float steepness = init.kind == FK_ACTIVATION_KIND_SILU ? 1.F : 1.702F;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(gated_by_itself<T>, blocks_of(vectors), kItemThreads, 0, ctx, fk::data<T>(a.x), fk::data<T>(a.out), vectors, steepness);
    });
  }
};
struct SwigluOai : Base<fk::swiglu_oai> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(init.size % 8 == 0, "size: a multiple of 8 only");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t vectors = a.x->shape[0] * init.size / 8;
    if (!vectors) return;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      launch(swiglu_oai<T>, blocks_of(vectors), kItemThreads, 0, ctx, fk::data<T>(a.x), fk::data<T>(a.out), vectors, float(init.alpha), float(init.limit));
    });
  }
};
FK_OP(activation, Activation);
FK_OP(gelu, Gelu);
FK_OP(swiglu_oai, SwigluOai);

}  // namespace
