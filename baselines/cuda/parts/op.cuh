// SPDX-License-Identifier: Apache-2.0
// The host side of the ops of this provider: claims, refusals, dispatch over both types of 16 bits,
// and the base class. cuda_reference has float32.
#pragma once
#include "dependent_launch.cuh"
#include "launch.cuh"
#include "math.cuh"
#include "reduce.cuh"
#include "vector.cuh"

namespace fkc {

// batch_invariant 0: the division of K or of a row depends on the number of rows.
constexpr fk_claims claims_of(int32_t graph, int32_t batch_invariant) {
  return {FK_END(fk_claims, sm), kDevice, graph,    1,  batch_invariant,
          FK_ACCUMULATE_F32,     0,       kSmCount, kSm};
}
inline constexpr fk_claims kClaims = claims_of(FK_GRAPH_ALWAYS, 1);

inline void need(bool condition, const char* why) {
  if (!condition) throw fk::unsupported{why};
}
inline void need_16bit(const fk_in* view) {
  need(FK_DTYPE(view) == FK_BF16 || FK_DTYPE(view) == FK_F16, "float16 and bfloat16 only");
}
// Rows can be loaded in vectors of 16 bytes, if the last axis is whole vectors.
inline void need_aligned(const fk_in* view) {
  need(fk_alignment(view) == FK_ALIGNMENT, "rows must start at multiples of 16 bytes");
}
inline void need_parameter(const fk_in* view, const fk_in* x) {
  need(!view || FK_DTYPE(view) == FK_F32 || FK_DTYPE(view) == FK_DTYPE(x),
       "weight and bias: the dtype of x or float32 only");
}

// f(T{}) with the type of a view of 16 bits.
template <class F>
void dispatch(const fk_in* view, F f) {
  if (FK_DTYPE(view) == FK_BF16)
    f(__nv_bfloat16{});
  else
    f(__half{});
}

// The same for a view of 16 or 32 bits.
template <class F>
void with_float(const fk_in* view, F f) {
  if (FK_DTYPE(view) == FK_F32)
    f(float{});
  else
    dispatch(view, f);
}

// A weight or bias: of type T, float32, or absent.
template <class T>
struct Parameter {
  const T* narrow;
  const float* wide;
  __device__ void load(int at, float absent, float (&to)[8]) const {
    if (narrow) return load_floats(narrow + at, to);
#pragma unroll
    for (int k = 0; k < 8; k += 4) {
      float4 four = {absent, absent, absent, absent};
      if (wide) four = *reinterpret_cast<const float4*>(wide + at + k);
      to[k] = four.x, to[k + 1] = four.y, to[k + 2] = four.z, to[k + 3] = four.w;
    }
  }
  __device__ float one(int64_t at) const { return narrow ? to_float(narrow[at]) : wide[at]; }
};
template <class T>
Parameter<T> parameter(const fk_in* view) {
  if (!view) return {};
  if (FK_DTYPE(view) == FK_F32) return {nullptr, fk::data<float>(view)};
  return {fk::data<T>(view), nullptr};
}

// All of an op but supports() and forward().
template <class Op>
struct Base {
  using op = Op;
  static constexpr fk_claims claims = kClaims;
  const typename Op::init& init;
  const typename Op::weights& weights;
  Base(const fk_host&, const typename Op::init& i, const typename Op::weights& w)
      : init(i), weights(w) {}
  void prepare(const typename Op::forward&, const fk_memory&) {}
};

}  // namespace fkc
