// SPDX-License-Identifier: Apache-2.0
// The products of pairs of tokens of gated_chunks.cuh. Each block has a chunk of a head.
#pragma once
#include "../parts/op.cuh"
#include "../parts/reduce.cuh"
#include "../parts/shared_memory.cuh"
#include "matrix_state.cuh"

namespace fkc {

namespace gated {

constexpr int kTokens = 16, kPairThreads = 128,
              kPairOfToken = kPairThreads / kTokens;  // lanes of a token

// A thread of gated_pairs() has all of a token's key, in pieces of four elements.
template <int kPieces>
struct PairPlaces {
  static constexpr int kWidth = 64 * kPieces, kVectors = kTokens * kWidth;
  static constexpr int kQ = 0, kK = kVectors, kDecay = 2 * kVectors, kBytes = 3 * kVectors * 4;
};

// pairs: [tokens, heads, 16], for each token those of its chunk, and 0 for later ones.
template <class T, class S, int kPieces>
__global__ void __launch_bounds__(kPairThreads)
    gated_pairs(const MatrixState<T, S> s, float* pairs) {
  using P = PairPlaces<kPieces>;
  wait_for_inputs();
  float* const shared = reinterpret_cast<float*>(dynamic_shared());
  const int request = int(blockIdx.x) / s.heads, head = int(blockIdx.x) % s.heads,
            me = int(threadIdx.x);
  const int begin = s.starts[request], tokens = s.starts[request + 1] - begin;
  for (int first = int(blockIdx.y) * kTokens; first < tokens; first += int(gridDim.y) * kTokens) {
    const int64_t t = int64_t(begin) + first;
    const int count = min(kTokens, tokens - first);
    __syncthreads();
#pragma unroll 1
    for (int d = me; d < P::kWidth; d += kPairThreads) {
      const int there = d < s.width ? count : 0;
      float q[kTokens], k[kTokens], decay[kTokens];
      s.q.load_tokens(t, there, head, d, q);
      s.k.load_tokens(t, there, head, d, k);
      s.decays.load_tokens(t, there, head, d, decay);
#pragma unroll
      for (int i = 0; i < kTokens; ++i) {
        const int at = i * P::kWidth + d;
        shared[P::kQ + at] = q[i], shared[P::kK + at] = k[i],
                       shared[P::kDecay + at] = __expf(decay[i]);
      }
    }
    __syncthreads();
    const int own = me / kPairOfToken, lane = me % kPairOfToken;
    float k[2 * kPieces][4];
#pragma unroll
    for (int j = 0; j < 2 * kPieces; ++j)
      load_floats(shared + P::kK + own * P::kWidth + j * 32 + lane * 4, k[j]);
#pragma unroll 1
    for (int token = 0; token < kTokens; ++token) {
      float sum = 0;
      if (token >= own) {
#pragma unroll
        for (int j = 0; j < 2 * kPieces; ++j) {
          const int place = token * P::kWidth + j * 32 + lane * 4;
          float q[4], decay[4];
          load_floats(shared + P::kQ + place, q);
          load_floats(shared + P::kDecay + place, decay);
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            if (token > own) k[j][e] *= decay[e];
            sum += q[e] * k[j][e];
          }
        }
      }
      sum = warp_sum<kPairOfToken>(sum);
      if (lane == 0 && token < count) pairs[((t + token) * s.heads + head) * kTokens + own] = sum;
    }
  }
}

}  // namespace gated

}  // namespace fkc
