// SPDX-License-Identifier: Apache-2.0
// The producers of matrix_chunks.cuh: vectors of a chunk with their decays, the products of pairs
// of its tokens, and the inverse of the triangular system.
#pragma once
#include "../parts/barrier.cuh"
#include "../parts/op.cuh"
#include "../parts/shared_memory.cuh"
#include "matrix_state.cuh"

namespace fkc {

constexpr int kChunkTokens = 16, kChunkColumns = 32, kChunkSide = 128;  // threads of a side
constexpr int kSquare = kChunkTokens * kChunkTokens, kPanel = kChunkTokens * kChunkColumns;

// Places in shared memory, in floats. kPieces: times 64 elements of a key. A buffer is what
// producers hand over.
template <Form kForm, int kPieces>
struct ChunkPlaces {
  static constexpr bool kSees = kForm != Form::gated, kLowRank = kForm == Form::low_rank;
  static constexpr int kWidth = 64 * kPieces, kVectors = kChunkTokens * kWidth;
  // (E q), (F k), (E a), (F b), v, E_last
  static constexpr int kQ = 0, kK = kQ + kVectors, kA = kK + kVectors,
                       kB = kA + (kSees ? kVectors : 0), kV = kB + (kLowRank ? kVectors : 0),
                       kLast = kV + kPanel;
  // Products of pairs: q k; the inverse; a k; q b. A row for each later token.
  static constexpr int kQk = kLast + kWidth, kInverse = kQk + kSquare,
                       kAk = kInverse + (kSees ? kSquare : 0), kQb = kAk + (kLowRank ? kSquare : 0);
  // Factors of tokens, from scale and norms: of out, and of k.
  static constexpr int kOutScale = kQb + (kLowRank ? kSquare : 0), kKeyScale = kOutScale + 16,
                       kBuffer = kKeyScale + 16;
  // For producers: inputs as they are, decays, products k k or a b, beta
  static constexpr int kRawQ = 2 * kBuffer, kRawK = kRawQ + kVectors, kDecay = kRawK + kVectors,
                       kRawA = kDecay + kVectors, kRawB = kRawA + (kLowRank ? kVectors : 0),
                       kLower = kRawB + (kLowRank ? kVectors : 0), kBeta = kLower + kSquare;
  // For consumers: sums of warps, right sides of the system, and its solution
  static constexpr int kSums = kSees ? 2 : 1, kParts = kBeta + 16,
                       kRight = kParts + 4 * kSums * kPanel, kSolved = kRight + kPanel,
                       kAll = kSolved + kPanel;
  static constexpr int kBytes = kAll * 4;
};

__device__ inline float4 four(const float* at) { return *reinterpret_cast<const float4*>(at); }
__device__ inline float dot(float4 a, const float (&b)[4]) {
  return (a.x * b[0] + a.y * b[1]) + (a.z * b[2] + a.w * b[3]);
}

// One chunk, by producers. `me`: the number of the thread among them.
template <class T, class S, Form kForm, int kPieces>
struct ChunkProducer {
  using P = ChunkPlaces<kForm, kPieces>;
  const MatrixState<T, S>& s;
  float* shared;
  int me, head, column;

  static __device__ void barrier() { named_barrier_sync(2, kChunkSide); }

  __device__ void stage(float* to, int64_t t, int count) const {
    const int key = head / s.group;
#pragma unroll 1
    for (int d = me; d < P::kWidth; d += kChunkSide) {
      const int there = d < s.width ? count : 0;
      float q[kChunkTokens], k[kChunkTokens], decay[kChunkTokens], a[kChunkTokens], b[kChunkTokens];
      s.q.load_tokens(t, there, key, d, q);
      s.k.load_tokens(t, there, key, d, k);
      s.decays.load_tokens(t, there, head, d, decay);
      if constexpr (P::kLowRank) s.a.load_tokens(t, there, head, d, a);
      if constexpr (P::kLowRank) s.b.load_tokens(t, there, head, d, b);
      float before = 1, behind = 1;
#pragma unroll
      for (int i = 0; i < kChunkTokens; ++i) {
        const int at = i * P::kWidth + d;
        shared[P::kRawQ + at] = q[i], shared[P::kRawK + at] = k[i];
        if constexpr (P::kLowRank) {
          shared[P::kRawA + at] = a[i], shared[P::kRawB + at] = b[i];
          to[P::kA + at] = a[i] * before;
        }
        decay[i] = __expf(decay[i]);
        shared[P::kDecay + at] = decay[i];
        before *= decay[i];
        to[P::kQ + at] = q[i] * before;
        if constexpr (kForm == Form::delta) to[P::kA + at] = k[i] * before;
      }
      to[P::kLast + d] = before;
#pragma unroll
      for (int i = kChunkTokens - 1; i >= 0; --i) {
        to[P::kK + i * P::kWidth + d] = k[i] * behind;
        if constexpr (P::kLowRank) to[P::kB + i * P::kWidth + d] = b[i] * behind;
        behind *= decay[i];
      }
    }
    float v[4] = {};
    const int token = me / 8, c = me % 8 * 4;
    if (token < count && column + c < s.values) s.v.load(t + token, head, column + c, v);
    store_floats(to + P::kV + token * kChunkColumns + c, v);
    if (kForm == Form::delta && me < kChunkTokens)
      shared[P::kBeta + me] =
          me < count ? s.beta.of((t + me) * s.beta_token + head * s.beta_head) : 0.F;
  }

  // Products of token `me` / 8 with itself and all later ones. Eight lanes have some elements each.
  __device__ void multiply(float* to, int count) const {
    const int own = me / 8, at = me % 8 * 4;
    float k[2 * kPieces][4], b[2 * kPieces][4], k_squares = 0, q_squares = 0;
#pragma unroll
    for (int j = 0; j < 2 * kPieces; ++j) {
      const int place = own * P::kWidth + j * 32 + at;
      load_floats(shared + P::kRawK + place, k[j]);
      if constexpr (P::kLowRank) load_floats(shared + P::kRawB + place, b[j]);
      k_squares += dot(four(shared + P::kRawK + place), k[j]);
      float q[4];
      load_floats(shared + P::kRawQ + place, q);
      q_squares += dot(four(shared + P::kRawQ + place), q);
    }
    k_squares = warp_sum<8>(k_squares), q_squares = warp_sum<8>(q_squares);
    if (at == 0) {
      const bool norm = kForm == Form::delta && s.normalize;
      to[P::kOutScale + own] = own < count ? s.scale * (norm ? rsqrtf(q_squares + s.eps) : 1.F) : 0;
      to[P::kKeyScale + own] = own < count ? (norm ? rsqrtf(k_squares + s.eps) : 1.F) : 0;
    }
#pragma unroll 1
    for (int t = 0; t < kChunkTokens; ++t) {
      float with_q = 0, lower = 0, a_k = 0, q_b = 0;
      if (t >= own) {
#pragma unroll
        for (int j = 0; j < 2 * kPieces; ++j) {
          const int place = t * P::kWidth + j * 32 + at;
          if (t > own) {
            if constexpr (P::kLowRank) {
              const float4 a = four(shared + P::kRawA + place);
              a_k += dot(a, k[j]), lower += dot(a, b[j]);
            }
            const float4 decay = four(shared + P::kDecay + place);
            k[j][0] *= decay.x, k[j][1] *= decay.y, k[j][2] *= decay.z, k[j][3] *= decay.w;
            if constexpr (P::kLowRank)
              b[j][0] *= decay.x, b[j][1] *= decay.y, b[j][2] *= decay.z, b[j][3] *= decay.w;
            if constexpr (kForm == Form::delta) lower += dot(four(shared + P::kRawK + place), k[j]);
          }
          const float4 q = four(shared + P::kRawQ + place);
          with_q += dot(q, k[j]);
          if constexpr (P::kLowRank) q_b += dot(q, b[j]);
        }
      }
      with_q = warp_sum<8>(with_q);
      if constexpr (P::kSees) lower = warp_sum<8>(lower);
      if constexpr (P::kLowRank) a_k = warp_sum<8>(a_k), q_b = warp_sum<8>(q_b);
      if (at) continue;
      const int place = t * kChunkTokens + own;
      to[P::kQk + place] = with_q;
      if constexpr (P::kSees) shared[P::kLower + place] = lower;
      if constexpr (P::kLowRank) to[P::kAk + place] = a_k, to[P::kQb + place] = q_b;
    }
  }

  // A thread inverts a column of 1 + beta (k k), or of 1 - (a b).
  __device__ void invert(float* to) const {
    if (me >= kChunkTokens) return;
    const float own = kForm == Form::delta ? shared[P::kBeta + me] : 1.F;
    float x[kChunkTokens];
#pragma unroll
    for (int t = 0; t < kChunkTokens; ++t) {
      const float scale = to[P::kKeyScale + t];
      float sum = 0;
#pragma unroll
      for (int i = 0; i < t; ++i)
        sum += shared[P::kLower + t * kChunkTokens + i] * x[i] *
               (kForm == Form::delta ? to[P::kKeyScale + i] : 1.F);
      if constexpr (kForm == Form::delta) sum *= -shared[P::kBeta + t] * scale;
      x[t] = t == me ? 1.F : t < me ? 0.F : sum;
      to[P::kInverse + t * kChunkTokens + me] = kForm == Form::delta ? scale * x[t] * own : x[t];
    }
  }

  __device__ void prepare(float* to, int64_t t, int count) const {
    stage(to, t, count);
    barrier();
    multiply(to, count);
    if constexpr (P::kSees) {
      barrier();
      invert(to);
    }
  }
};

}  // namespace fkc
