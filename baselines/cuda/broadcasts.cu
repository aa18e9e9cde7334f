// SPDX-License-Identifier: Apache-2.0
// modulate, scaled_add, linear_combination, box_refine: sums and products of rows with rows of
// images, eight elements per thread.
#define FK_SCALED_ADD_EDITION 2
#include "fk/ops/box_refine.h"
#include "fk/ops/linear_combination.h"
#include "fk/ops/modulate.h"
#include "fk/ops/scaled_add.h"
#include "parts/each_item.cuh"
#include "parts/op.cuh"

namespace {
using namespace fkc;

template <class T>
struct ModulateRows {
  const T* x;
  T* out;
  Parameter<T> scale, shift;
  int64_t scale_step, shift_step;  // elements from image to image
  int64_t image;                   // vectors of an image
  int vectors;                     // of a row
  float offset;
  __device__ void operator()(int64_t i) const {
    const int64_t b = i / image;
    const int column = int(i % vectors) * 8;
    float v[8], factor[8], added[8];
    load_floats(x + i * 8, v);
    at(scale, b * scale_step).load(column, 0, factor);
    at(shift, b * shift_step).load(column, 0, added);
#pragma unroll
    for (int k = 0; k < 8; ++k) v[k] = v[k] * (offset + factor[k]) + added[k];
    store_floats(out + i * 8, v);
  }
  static __device__ Parameter<T> at(const Parameter<T>& p, int64_t from) {
    return {p.narrow ? p.narrow + from : nullptr, p.wide ? p.wide + from : nullptr};
  }
};

template <class T>
struct ScaledAddRows {
  const T *x, *y;
  T* out;
  Parameter<T> gate;
  int64_t gate_rows, gates;  // rows with a gate, 0: all; gates
  int vectors;
  float scale;
  __device__ void operator()(int64_t i) const {
    const int64_t row = i / vectors, own = gate_rows ? row / gate_rows % gates : 0;
    float v[8], factor[8], sum[8] = {};
    load_floats(y + i * 8, v);
    const int64_t from = own * vectors * 8;
    const Parameter<T> mine{gate.narrow ? gate.narrow + from : nullptr,
                            gate.wide ? gate.wide + from : nullptr};
    mine.load(int(i % vectors) * 8, 1, factor);
    if (x) load_floats(x + i * 8, sum);
#pragma unroll
    for (int k = 0; k < 8; ++k) sum[k] += scale * factor[k] * v[k];
    store_floats(out + i * 8, sum);
  }
};

constexpr int kTermsMost = 8;
// Four elements: rows of latents have no more.
template <class X, class T>
struct Combination {
  const X* x[kTermsMost];
  T* out;
  const float* coefficients;
  int terms;
  __device__ void operator()(int64_t i) const {
    float sum[4], v[4];
    load_floats(out + i * 4, sum);
#pragma unroll
    for (int k = 0; k < 4; ++k) sum[k] *= coefficients[0];
    for (int n = 0; n < terms; ++n) {
      load_floats(x[n] + i * 4, v);
#pragma unroll
      for (int k = 0; k < 4; ++k) sum[k] += coefficients[n + 1] * v[k];
    }
    store_floats(out + i * 4, sum);
  }
};

// An element: rows of any width, without gates.
template <class T>
struct ScaledAddElements {
  const T *x, *y;
  T* out;
  float scale;
  __device__ void operator()(int64_t i) const {
    out[i] = from_float<T>((x ? to_float(x[i]) : 0.F) + scale * to_float(y[i]));
  }
};

// sigmoid(delta + log(a / b)) is a / (a + b * e^-delta).
template <class D, class T>
struct RefinedBoxes {
  const D* delta;
  const T* reference;
  T* out;
  float eps;
  __device__ void operator()(int64_t i) const {
    float d[4], r[4];
    load_floats(delta + i * 4, d), load_floats(reference + i * 4, r);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const float inside = fminf(fmaxf(r[k], 0.F), 1.F), a = fmaxf(inside, eps),
                  b = fmaxf(1.F - inside, eps);
      r[k] = a / (a + b * __expf(-d[k]));
    }
    store_floats(out + i * 4, r);
  }
};

struct Modulate : Base<fk::modulate> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.x);
    need(init.size % 8 == 0, "size: a multiple of 8 only");
    for (const fk_in* view : {max.scale.or_null, max.shift.or_null}) {
      need_parameter(view, max.x);
      if (view) need_aligned(view);
    }
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const fk_in *scale = a.scale.or_null, *shift = a.shift.or_null;
    dispatch(a.x, [&](auto type) {
      using T = decltype(type);
      for_each_item(fk_numel(a.x) / 8, ctx,
                    ModulateRows<T>{fk::data<T>(a.x), fk::data<T>(a.out), parameter<T>(scale),
                                    parameter<T>(shift), scale ? scale->strides[0] : 0,
                                    shift ? shift->strides[0] : 0, a.x->shape[1] * init.size / 8,
                                    int(init.size / 8), float(init.offset)});
    });
  }
};
struct ScaledAdd : Base<fk::scaled_add> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need_16bit(max.y);
    need(init.size % 8 == 0 || !max.gate.or_null, "size: with gate a multiple of 8 only");
    need_parameter(max.gate.or_null, max.y);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const fk_in* gate = a.gate.or_null;
    dispatch(a.y, [&](auto type) {
      using T = decltype(type);
      if (init.size % 8)
        return for_each_item(fk_numel(a.y), ctx,
                             ScaledAddElements<T>{fk::data<T>(a.x), fk::data<T>(a.y),
                                                  fk::data<T>(a.out), float(init.scale)});
      for_each_item(fk_numel(a.y) / 8, ctx,
                    ScaledAddRows<T>{fk::data<T>(a.x), fk::data<T>(a.y), fk::data<T>(a.out),
                                     parameter<T>(gate), init.gate_rows, gate ? gate->shape[0] : 1,
                                     int(init.size / 8), float(init.scale)});
    });
  }
};
struct LinearCombination : Base<fk::linear_combination> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need(init.num_terms <= kTermsMost, "num_terms: up to 8");
    need(init.size % 4 == 0, "size: a multiple of 4 only");
    for (int64_t n = 1; n < init.num_terms; ++n)
      need(FK_DTYPE(max.x->at[n]) == FK_DTYPE(max.x->at[0]), "x: terms of one dtype");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    with_float(a.x->at[0], [&](auto from) {
      with_float(fk_as_in(a.out), [&](auto to) {
        using X = decltype(from);
        using T = decltype(to);
        Combination<X, T> all{
            {}, fk::data<T>(a.out), fk::data<float>(a.coefficients), int(init.num_terms)};
        for (int64_t n = 0; n < init.num_terms; ++n) all.x[n] = fk::data<X>(a.x->at[n]);
        for_each_item(fk_numel(fk_as_in(a.out)) / 4, ctx, all);
      });
    });
  }
};
struct BoxRefine : Base<fk::box_refine> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    need(init.size % 4 == 0, "size: a multiple of 4 only");
    need(FK_DTYPE(max.out) == FK_DTYPE(max.reference), "out: the dtype of reference only");
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    with_float(a.delta, [&](auto from) {
      with_float(a.reference, [&](auto to) {
        using D = decltype(from);
        using T = decltype(to);
        for_each_item(fk_numel(a.delta) / 4, ctx,
                      RefinedBoxes<D, T>{fk::data<D>(a.delta), fk::data<T>(a.reference),
                                         fk::data<T>(a.out), float(init.eps)});
      });
    });
  }
};
FK_OP(box_refine, BoxRefine);
FK_OP(linear_combination, LinearCombination);
FK_OP(modulate, Modulate);
FK_OP(scaled_add, ScaledAdd);

}  // namespace
