// SPDX-License-Identifier: Apache-2.0
// modulate, scaled_add, linear_combination: sums and products of rows with rows of images, eight
// elements per thread.
#define FK_SCALED_ADD_EDITION 2
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
    need(init.size % 8 == 0, "size: a multiple of 8 only");
    need_parameter(max.gate.or_null, max.y);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const fk_in* gate = a.gate.or_null;
    dispatch(a.y, [&](auto type) {
      using T = decltype(type);
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
FK_OP(linear_combination, LinearCombination);
FK_OP(modulate, Modulate);
FK_OP(scaled_add, ScaledAdd);

}  // namespace
