// SPDX-License-Identifier: Apache-2.0
// gelu, activation, silu_and_mul, activation_and_mul, swiglu_oai: eight results per thread. gelu
// and activation have one where rows are no whole vectors.
#define FK_ACTIVATION_EDITION 1
#include "fk/ops/activation.h"
#include "fk/ops/activation_and_mul.h"
#include "fk/ops/gelu.h"
#include "fk/ops/silu_and_mul.h"
#include "fk/ops/swiglu_oai.h"
#include "parts/activation.cuh"
#include "parts/each_item.cuh"
#include "parts/op.cuh"

namespace {
using namespace fkc;

template <class T, class F>
struct Map {
  const T* x;
  T* out;
  __device__ void operator()(int64_t i) const {
    Vec8<T> v = load8(x + i * 8);
#pragma unroll
    for (int k = 0; k < 8; ++k) v.at[k] = from_float<T>(F{}(to_float(v.at[k])));
    store8(out + i * 8, v);
  }
};

template <class T, class F>
struct MapElements {
  const T* x;
  T* out;
  __device__ void operator()(int64_t i) const { out[i] = from_float<T>(F{}(to_float(x[i]))); }
};

// Rows of x are gates, then factors.
template <class T, class F>
struct MapAndMul {
  const T* x;
  T* out;
  int vectors;  // of a row of out
  __device__ void operator()(int64_t i) const {
    const T* const from = x + i / vectors * vectors * 16 + i % vectors * 8;
    const Vec8<T> gate = load8(from), up = load8(from + vectors * 8);
    Vec8<T> o;
#pragma unroll
    for (int k = 0; k < 8; ++k)
      o.at[k] = from_float<T>(F{}(to_float(gate.at[k])) * to_float(up.at[k]));
    store8(out + i * 8, o);
  }
};

// Neighbouring columns are gate and up.
template <class T>
struct SwigluOaiOf {
  const T* x;
  T* out;
  float alpha, limit;
  __device__ void operator()(int64_t i) const {
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
};

void need_vectors(const fk_in* x, int64_t size) {
  need_16bit(x);
  need(size % 8 == 0, "size: a multiple of 8 only");
}
template <class F>
void map(const fk_in* x, const fk_out* out, int64_t size, const fk_ctx& ctx, F) {
  dispatch(x, [&](auto type) {
    using T = decltype(type);
    if (size % 8)
      return for_each_item(fk_numel(x), ctx, MapElements<T, F>{fk::data<T>(x), fk::data<T>(out)});
    for_each_item(fk_numel(x) / 8, ctx, Map<T, F>{fk::data<T>(x), fk::data<T>(out)});
  });
}
template <class F>
void map_and_mul(const fk_in* x, const fk_out* out, int64_t size, const fk_ctx& ctx, F) {
  dispatch(x, [&](auto type) {
    using T = decltype(type);
    for_each_item(x->shape[0] * size / 8, ctx,
                  MapAndMul<T, F>{fk::data<T>(x), fk::data<T>(out), int(size / 8)});
  });
}

struct GeluOp : Base<fk::gelu> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    if (init.approximate)
      map(a.x, a.out, init.size, ctx, GeluTanh{});
    else
      map(a.x, a.out, init.size, ctx, Gelu{});
  }
};
struct Activation : Base<fk::activation> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(with_kind(init.kind, [](auto) {}),
         "kind: relu, relu2, silu, sigmoid, log_sigmoid, tanh, quick_gelu and mish only");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    with_kind(init.kind, [&](auto f) { map(a.x, a.out, init.size, ctx, f); });
  }

 private:
  // False if there is no such function here.
  template <class F>
  static bool with_kind(int64_t kind, F f) {
    switch (kind) {
      case FK_ACTIVATION_KIND_RELU:
        return f(Relu{}), true;
      case FK_ACTIVATION_KIND_RELU2:
        return f(Relu2{}), true;
      case FK_ACTIVATION_KIND_SILU:
        return f(Silu{}), true;
      case FK_ACTIVATION_KIND_SIGMOID:
        return f(Sigmoid{}), true;
      case FK_ACTIVATION_KIND_LOG_SIGMOID:
        return f(LogSigmoid{}), true;
      case FK_ACTIVATION_KIND_TANH:
        return f(Tanh{}), true;
      case FK_ACTIVATION_KIND_QUICK_GELU:
        return f(QuickGelu{}), true;
      case FK_ACTIVATION_KIND_MISH:
        return f(Mish{}), true;
      default:
        return false;
    }
  }
};
struct SiluAndMul : Base<fk::silu_and_mul> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_vectors(max.x, init.size);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    map_and_mul(a.x, a.out, init.size, ctx, Silu{});
  }
};
struct ActivationAndMul : Base<fk::activation_and_mul> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_vectors(max.x, init.size);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const auto go = [&](auto f) { map_and_mul(a.x, a.out, init.size, ctx, f); };
    switch (init.kind) {
      case FK_ACTIVATION_AND_MUL_KIND_GELU:
        return go(GeluOfProduct{});
      case FK_ACTIVATION_AND_MUL_KIND_GELU_TANH:
        return go(GeluTanh{});
      case FK_ACTIVATION_AND_MUL_KIND_SILU:
        return go(Silu{});
      case FK_ACTIVATION_AND_MUL_KIND_RELU:
        return go(Relu{});
      case FK_ACTIVATION_AND_MUL_KIND_RELU2:
        return go(Relu2{});
      default:
        return go(Sigmoid{});
    }
  }
};
struct SwigluOai : Base<fk::swiglu_oai> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_vectors(max.x, init.size);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      for_each_item(a.x->shape[0] * init.size / 8, ctx,
                    SwigluOaiOf<T>{fk::data<T>(a.x), fk::data<T>(a.out), float(init.alpha),
                                   float(init.limit)});
    });
  }
};
FK_OP(activation, Activation);
FK_OP(activation_and_mul, ActivationAndMul);
FK_OP(gelu, GeluOp);
FK_OP(silu_and_mul, SiluAndMul);
FK_OP(swiglu_oai, SwigluOai);

}  // namespace
