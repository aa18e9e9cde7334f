// SPDX-License-Identifier: Apache-2.0
// Arguments of the kernels of ssd_chunk_scan and selective_state_update.
#pragma once
#include "../parts/op.cuh"

namespace fkc {

// A scalar for each head, of any float type, or absent.
struct Scalars {
  const void* at;
  int dtype;
  __device__ float of(int64_t i) const {
    if (!at) return 0;
    if (dtype == FK_F32) return static_cast<const float*>(at)[i];
    return dtype == FK_BF16 ? to_float(static_cast<const __nv_bfloat16*>(at)[i])
                            : to_float(static_cast<const __half*>(at)[i]);
  }
};
inline Scalars scalars(fk_opt_in view) {
  return view.or_null ? Scalars{view.or_null->data, FK_DTYPE(view.or_null)} : Scalars{};
}

// kCount neighbouring elements as float32, a multiple of four. aligned: in vectors of four.
template <int kCount, class T>
__device__ void load_run(const T* from, bool aligned, float (&to)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; i += 4) {
    if (aligned) {
      float four[4];
      load_floats(from + i, four);
#pragma unroll
      for (int k = 0; k < 4; ++k) to[i + k] = four[k];
    } else {
#pragma unroll
      for (int k = 0; k < 4; ++k) to[i + k] = to_float(from[i + k]);
    }
  }
}
// Rows start at multiples of four elements.
inline bool in_fours(const fk_in* view) {
  return fk_alignment(view) % std::min<int64_t>(view->dtype.bits / 2, FK_ALIGNMENT) == 0;
}

// Strides are in elements: of tokens, and of heads or groups. `starts` and `has_state` are null if
// every request has one token and a state.
template <class T, class S>
struct Scan {
  const T *x, *dt, *b, *c;
  S* state;
  T* out;
  const float* a;
  Scalars d, dt_bias;
  const int32_t *starts, *slots, *has_state;
  int64_t x_token, x_head, dt_token, dt_head, b_token, b_group, c_token, c_group, slot, state_head,
      state_row;
  int heads, width, group, elements,
      softplus;  // group: heads with the same b and c. elements: of a row of the state
  float dt_min, dt_max;

  __device__ float step(float of_dt) const {
    // Above 20 the logarithm is its argument, to the last bit.
    const float v = fmaxf(softplus && of_dt < 20.F ? log1pf(__expf(of_dt)) : of_dt, dt_min);
    return dt_max > 0 ? fminf(v, dt_max) : v;
  }
};

}  // namespace fkc
