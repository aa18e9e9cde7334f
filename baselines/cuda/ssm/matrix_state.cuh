// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels of gated_linear_attention, gated_delta_rule and dplr_recurrence. A token
// of a head: state = diag(decay) state + b (a^T state)^T + k add^T, out = scale * state^T q.
#pragma once
#include "recurrence.cuh"

namespace fkc {

// gated: add = v. delta: add = beta (v - state^T k), with the decayed state. low_rank: add = v, and
// only this form has a and b.
enum class Form { gated, delta, low_rank };

// Vectors of heads of tokens. Strides are in elements.
template <class T>
struct HeadVectors {
  const T* at;
  int64_t token, head;
  bool aligned;
  template <int kCount>
  __device__ void load(int64_t t, int64_t h, int first, float (&to)[kCount]) const {
    load_run(at + t * token + h * head + first, aligned, to);
  }
  // Element d of `count` tokens from t on, and 0 for the others.
  template <int kCount>
  __device__ void load_tokens(int64_t t, int count, int64_t h, int d, float (&to)[kCount]) const {
    const T* const from = at + t * token + h * head + d;
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = i < count ? to_float(from[i * token]) : 0.F;
  }
};
template <class T>
HeadVectors<T> head_vectors(const fk_in* view) {
  return {fk::data<T>(view), view->strides[0], view->strides[1], in_fours(view)};
}

// Logarithms of decays: for each element of a key, or for a head, or none. `fixed`: of a head, or
// null.
struct Decays {
  const void* at;
  int dtype, width;
  int64_t token, head;
  bool aligned;
  const float* fixed;
  template <int kCount>
  __device__ void load(int64_t t, int64_t h, int first, float (&to)[kCount]) const {
    const int64_t place = t * token + h * head;
    const auto* const bytes = static_cast<const char*>(at);
    const float all =
        (fixed ? fixed[h] : 0.F) + (at && width == 1 ? Scalars{at, dtype}.of(place) : 0.F);
    if (!at || width == 1) {
#pragma unroll
      for (int k = 0; k < kCount; ++k) to[k] = 0;
    } else if (dtype == FK_F32) {
      load_run(reinterpret_cast<const float*>(bytes) + place + first, aligned, to);
    } else if (dtype == FK_BF16) {
      load_run(reinterpret_cast<const __nv_bfloat16*>(bytes) + place + first, aligned, to);
    } else {
      load_run(reinterpret_cast<const __half*>(bytes) + place + first, aligned, to);
    }
#pragma unroll
    for (int k = 0; k < kCount; ++k) to[k] += all;
  }
  // Element d of `count` tokens from t on, and 0 for the others.
  template <int kCount>
  __device__ void load_tokens(int64_t t, int count, int64_t h, int d, float (&to)[kCount]) const {
    const auto read = [&](const auto* from) {
      from += t * token + h * head + (width == 1 ? 0 : d);
#pragma unroll
      for (int i = 0; i < kCount; ++i) to[i] = i < count ? to_float(from[i * token]) : 0.F;
    };
    if (at && dtype == FK_F32)
      read(static_cast<const float*>(at));
    else if (at && dtype == FK_BF16)
      read(static_cast<const __nv_bfloat16*>(at));
    else if (at)
      read(static_cast<const __half*>(at));
    const float all = fixed ? fixed[h] : 0.F;
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = i < count ? (at ? to[i] : 0.F) + all : 0.F;
  }
};

// `starts` and `has_state` are null if every request has one token and a state.
template <class T, class S>
struct MatrixState {
  HeadVectors<T> q, k, v, a, b;
  Decays decays;
  Scalars beta;
  int64_t beta_token, beta_head;
  S* state;
  T* out;
  const int32_t *starts, *slots, *has_state;
  int64_t slot, state_head, state_row;
  int heads, width, values, group;  // group: value heads of a key head
  float scale, eps;
  int normalize;
};

}  // namespace fkc
