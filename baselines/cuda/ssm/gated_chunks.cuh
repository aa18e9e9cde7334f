// SPDX-License-Identifier: Apache-2.0
// gated_linear_attention on tensor cores, 16 tokens at a time. With E_t the product of the decays
// of a chunk up to token t, and F_t of those behind it:
//   out_t = (E q)_t^T S + sum over s <= t of pairs[t][s] v_s,  S = E_last S + sum of (F k)_s v_s^T
// gated_pairs() computes the pairs, q_t^T (decays between) k_s, once for all columns. Its exponents
// are of decays, so nothing overflows. In scan_gated() a block has 64 columns of a head's state in
// registers. A warp has 16 of them and half of the rows. While one warp of a scheduler multiplies,
// the other one prepares the vectors of the next chunk. Level 1 allows no rounding of intermediate
// values to 16 bits, so factors are split (parts/split_bf16.cuh).
#pragma once
#include "../parts/mma.cuh"
#include "gated_inputs.cuh"

namespace fkc {

namespace gated {

template <class T, class S, int kPieces>
struct GatedScan : GatedInputs<T, S, kPieces> {
  using In = GatedInputs<T, S, kPieces>;
  using In::base, In::begin, In::column, In::fetch, In::fetch_values, In::head, In::kBuffer,
      In::kHalf, In::kK, In::kLast, In::kOutTerms, In::kParts, In::kQ, In::kSums, In::kTiles,
      In::kV, In::lane, In::pairs, In::prepare, In::s, In::shared, In::slice, In::tokens, In::upper;
  using typename In::Values;
  using typename In::Vectors;
  float state[kTiles][4];

  // Element `e` of tile `t` is in a row of the state and a column of the block:
  //   upper * kHalf + t * 8 + lane % 4 * 2 + e % 2, and slice * 16 + lane / 4 + e / 2 * 8
  template <bool kStores>
  __device__ void move(S* of_head) {
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int row = upper * kHalf + t * 8 + lane % 4 * 2 + e % 2,
                  c = column + slice * 16 + lane / 4 + e / 2 * 8;
        if (row >= s.width || c >= s.values) continue;
        S* const at = of_head + row * s.state_row + c;
        if constexpr (kStores)
          *at = from_float<S>(state[t][e]);
        else
          state[t][e] = to_float(*at);
      }
  }
  // (E q)^T S over the warp's rows. `less`: products of lower terms.
  __device__ void multiply(int buffer, float (&out)[2][4], float (&less)[2][4]) const {
    const uint32_t at = base() + buffer + kQ + Vectors::of_lane();
#pragma unroll
    for (int k = 0; k < kTiles / 2; ++k) {
      uint32_t left[kOutTerms][4], terms[kOutTerms][4];
#pragma unroll
      for (int r = 0; r < 4; ++r)
        split(state[2 * k + r % 2][r / 2 * 2], state[2 * k + r % 2][r / 2 * 2 + 1], terms, r);
#pragma unroll
      for (int p = 0; p < kOutTerms; ++p)
        ldmatrix(left[p],
                 Vectors::further(at, 0, upper * (kHalf / 8) + k * 2) + p * Vectors::kBytes);
#pragma unroll
      for (int p = 0; p < kOutTerms; ++p)
#pragma unroll
        for (int q = 0; p + q < kOutTerms; ++q)
#pragma unroll
          for (int r = 0; r < 2; ++r)
            mma_m16n8k16<__nv_bfloat16>((p + q ? less : out)[r], left[p], terms[q][r * 2],
                                        terms[q][r * 2 + 1]);
    }
  }
  // S = E_last S + (F k) v^T over the warp's rows.
  __device__ void add(int buffer) {
    uint32_t left[kParts][4];
#pragma unroll
    for (int p = 0; p < kParts; ++p)
      ldmatrix_trans(left[p], base() + buffer + kV + p * Values::kBytes +
                                  Values::at(lane / 16 * 8 + lane % 8, slice * 2 + lane / 8 % 2));
    const float* const last =
        reinterpret_cast<const float*>(shared + buffer + kLast) + upper * kHalf + lane % 4 * 2;
    const uint32_t at = base() + buffer + kK + Vectors::of_lane();
#pragma unroll
    for (int t = 0; t < kTiles; t += 2) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float2 decay = *reinterpret_cast<const float2*>(last + (t + i) * 8);
        state[t + i][0] *= decay.x, state[t + i][1] *= decay.y, state[t + i][2] *= decay.x,
            state[t + i][3] *= decay.y;
      }
#pragma unroll
      for (int q = 0; q < kTerms; ++q) {
        uint32_t right[4];
        ldmatrix_trans(right,
                       Vectors::further(at, 0, upper * (kHalf / 8) + t) + q * Vectors::kBytes);
#pragma unroll
        for (int p = 0; p < kParts && p + q < kTerms; ++p)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            mma_m16n8k16<__nv_bfloat16>(state[t + i], left[p], right[2 * i], right[2 * i + 1]);
      }
    }
  }
  // The pairs of the chunk, in the layout of a left factor.
  __device__ void read_pairs(int first, float2 (&to)[4]) const {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int token = first + lane / 4 + r % 2 * 8;
      to[r] = make_float2(0, 0);
      if (token < tokens)
        to[r] = *reinterpret_cast<const float2*>(
            pairs + ((int64_t(begin) + token) * s.heads + head) * kTokens + r / 2 * 8 +
            lane % 4 * 2);
    }
  }
  __device__ void add_pairs(int buffer, const float2 (&of)[4], float (&out)[2][4],
                            float (&less)[2][4]) const {
    uint32_t left[kTerms][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int column_of = r / 2 * 8 + lane % 4 * 2,
                row = lane / 4 + r % 2 * 8;  // later tokens have no pairs
      split(column_of <= row ? of[r].x : 0.F, column_of + 1 <= row ? of[r].y : 0.F, left, r);
    }
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      uint32_t right[4];
      ldmatrix_trans(
          right, Values::further(base() + buffer + kV + p * Values::kBytes + Values::of_lane(), 0,
                                 slice * 2));
#pragma unroll
      for (int q = 0; p + q < kTerms; ++q)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          mma_m16n8k16<__nv_bfloat16>((p + q ? less : out)[r], left[q], right[2 * r],
                                      right[2 * r + 1]);
    }
  }
  __device__ float2* sums() const {
    return reinterpret_cast<float2*>(shared + kSums) + slice * (kSquare / 2) + lane;
  }
  __device__ void write(int first, const float (&out)[2][4]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int token = first + lane / 4 + h * 8, c = column + slice * 16 + r * 8 + lane % 4 * 2;
        if (token >= tokens || c >= s.values) continue;
        const float2 upper = sums()[(r * 2 + h) * 32];
        store_floats(s.out + ((int64_t(begin) + token) * s.heads + head) * s.values + c,
                     (out[r][2 * h] + upper.x) * s.scale, (out[r][2 * h + 1] + upper.y) * s.scale);
      }
  }

  __device__ void scan() {
    fetch(0);
    fetch_values(0, 0);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    prepare(0, 0);
    __syncthreads();
    fetch(kTokens);
    cp_async_commit();
    for (int first = 0, turn = 0; first < tokens; first += kTokens, turn ^= 1) {
      const int buffer = turn * kBuffer, other = kBuffer - buffer, next = first + kTokens;
      float out[2][4] = {}, less[2][4] = {};
      float2 of[4];
      if (upper == 0) read_pairs(first, of);
      cp_async_wait<0>();
      __syncthreads();  // this chunk's vectors and the inputs of the next one are there
      if (upper == 0) multiply(buffer, out, less);
      if (next < tokens) fetch_values(other, next), prepare(other, next);
      if (upper == 1) {
        multiply(buffer, out, less);
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int h = 0; h < 2; ++h)
            sums()[(r * 2 + h) * 32] =
                make_float2(out[r][2 * h] + less[r][2 * h], out[r][2 * h + 1] + less[r][2 * h + 1]);
      } else {
        add_pairs(buffer, of, out, less);
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int e = 0; e < 4; ++e) out[r][e] += less[r][e];
      }
      __syncthreads();  // sums are there, and inputs are free
      if (next + kTokens < tokens) fetch(next + kTokens);
      cp_async_commit();
      if (upper == 0) write(first, out);
      add(buffer);
    }
  }
};

template <class T, class S, int kPieces>
__global__ void __launch_bounds__(kThreads)
    scan_gated(const MatrixState<T, S> s, const float* pairs) {
  wait_for_inputs();
  const int request = int(blockIdx.x) / s.heads, head = int(blockIdx.x) % s.heads;
  const int begin = s.starts[request], tokens = s.starts[request + 1] - begin;
  if (tokens == 0) return;
  GatedScan<T, S, kPieces> scan{
      {s, pairs, dynamic_shared(), head, int(blockIdx.y) * kColumns, begin, tokens}, {}};
  S* const of_head = s.state + s.slots[request] * s.slot + head * s.state_head;
  if (s.has_state[request]) scan.template move<false>(of_head);
  scan.scan();
  scan.template move<true>(of_head);
}

}  // namespace gated

}  // namespace fkc
