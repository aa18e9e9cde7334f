// SPDX-License-Identifier: Apache-2.0
// Recurrences with a matrix as state, token by token. A block has 32 columns of a head's state, in
// registers from the first token to the last. A thread has kRows neighbouring rows of four columns.
// One reduction a token is enough: state^T q of the new state follows from products of the old one.
#pragma once
#include "../parts/op.cuh"
#include "matrix_state.cuh"

namespace fkc {

constexpr int kStepColumns = 32;

// Sums over the rows of a block: of four columns with k or a, and with q, and of pairs of vectors.
struct StepSums {
  float4 seen, with_q, pairs;  // pairs: q k, q b or k k, q q
};
// `parts` has room for the sums of the warps in eight lanes each.
template <int kWarps>
__device__ void sum_over_rows(float (&v)[12], StepSums (*parts)[8]) {
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < 12; ++i) {
    v[i] += __shfl_xor_sync(kAllLanes, v[i], 8);
    v[i] += __shfl_xor_sync(kAllLanes, v[i], 16);
  }
  if (lane < 8)
    parts[warp][lane] = {make_float4(v[0], v[1], v[2], v[3]), make_float4(v[4], v[5], v[6], v[7]),
                         make_float4(v[8], v[9], v[10], v[11])};
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 12; ++i) v[i] = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const StepSums& p = parts[w][lane % 8];
    v[0] += p.seen.x, v[1] += p.seen.y, v[2] += p.seen.z, v[3] += p.seen.w;
    v[4] += p.with_q.x, v[5] += p.with_q.y, v[6] += p.with_q.z, v[7] += p.with_q.w;
    v[8] += p.pairs.x, v[9] += p.pairs.y, v[10] += p.pairs.z;
  }
}

// The inputs of a token: of the rows of a thread, and of its columns.
template <class T, Form kForm, int kRows>
struct StepInputs {
  float q[kRows], k[kRows], decay[kRows], a[kRows], b[kRows], v[4], beta;
  template <class S>
  __device__ void load(const MatrixState<T, S>& s, int64_t t, int head, int first, int column) {
    const int key = head / s.group;
#pragma unroll
    for (int i = 0; i < kRows; ++i) q[i] = k[i] = decay[i] = a[i] = b[i] = 0;
    v[0] = v[1] = v[2] = v[3] = beta = 0;
    if (first < s.width) {
      s.q.load(t, key, first, q);
      s.k.load(t, key, first, k);
      s.decays.load(t, head, first, decay);
      if constexpr (kForm == Form::low_rank) {
        s.a.load(t, head, first, a);
        s.b.load(t, head, first, b);
      }
    }
    if (column < s.values) s.v.load(t, head, column, v);
    if constexpr (kForm == Form::delta) beta = s.beta.of(t * s.beta_token + head * s.beta_head);
  }
};

template <class T, class S, Form kForm, int kRows, int kThreads>
__global__ void __launch_bounds__(kThreads) step_matrix(const MatrixState<T, S> s) {
  __shared__ StepSums parts[2][kThreads / 32][8];
  wait_for_inputs();
  const int request = int(blockIdx.x) / s.heads, head = int(blockIdx.x) % s.heads;
  const int begin = s.starts ? s.starts[request] : request;
  const int end = s.starts ? s.starts[request + 1] : request + 1;
  if (begin == end) return;
  const int first = int(threadIdx.x) / 8 * kRows;
  const int column = int(blockIdx.y) * kStepColumns + int(threadIdx.x) % 8 * 4;
  const bool mine = first < s.width && column < s.values;
  S* const rows =
      s.state + s.slots[request] * s.slot + head * s.state_head + first * s.state_row + column;
  const bool fresh = s.has_state && !s.has_state[request];
  float state[kRows][4];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    state[i][0] = state[i][1] = state[i][2] = state[i][3] = 0;
    if (mine && !fresh) load_floats(rows + i * s.state_row, state[i]);
  }
  StepInputs<T, kForm, kRows> in;
  in.load(s, begin, head, first, column);
  for (int t = begin; t < end; ++t) {
    float sums[12] = {};
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      const float decay = __expf(in.decay[i]);
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if constexpr (kForm == Form::low_rank) sums[c] += in.a[i] * state[i][c];
        state[i][c] *= decay;
        if constexpr (kForm == Form::delta) sums[c] += in.k[i] * state[i][c];
        sums[4 + c] += in.q[i] * state[i][c];
      }
      sums[8] += in.q[i] * in.k[i];
      sums[9] += kForm == Form::low_rank ? in.q[i] * in.b[i] : in.k[i] * in.k[i];
      sums[10] += in.q[i] * in.q[i];
    }
    sum_over_rows<kThreads / 32>(sums, parts[(t - begin) % 2]);
    const float k_scale = s.normalize ? rsqrtf(sums[9] + s.eps) : 1.F;
    const float q_scale = s.scale * (s.normalize ? rsqrtf(sums[10] + s.eps) : 1.F);
    float add[4], out[4];
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      add[c] = in.v[c];
      if constexpr (kForm == Form::delta)
        add[c] = in.beta * (in.v[c] - k_scale * sums[c]) * k_scale;
      out[c] = sums[4 + c] + sums[8] * add[c];
      if constexpr (kForm == Form::low_rank) out[c] += sums[9] * sums[c];
      out[c] *= q_scale;
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        state[i][c] += in.k[i] * add[c];
        if constexpr (kForm == Form::low_rank) state[i][c] += in.b[i] * sums[c];
      }
    }
    if (first == 0 && column < s.values)
      store_floats(s.out + (int64_t(t) * s.heads + head) * s.values + column, out);
    if (t + 1 < end) in.load(s, t + 1, head, first, column);
  }
  if (!mine) return;
#pragma unroll
  for (int i = 0; i < kRows; ++i) store_floats(rows + i * s.state_row, state[i]);
}

}  // namespace fkc
