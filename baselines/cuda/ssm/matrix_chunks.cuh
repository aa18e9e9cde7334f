// SPDX-License-Identifier: Apache-2.0
// Recurrences with a matrix as state, 16 tokens at a time. A block has 32 columns of a head's state
// in the registers of its consumers, four warps. Its producers, four other warps, prepare the next
// chunk meanwhile: vectors with their decays, and the products of pairs of tokens.
//
// With E_t the product of the decays of a chunk up to token t, and F_t of those behind it:
//   seen_t = (E a)_t^T S + sums over earlier tokens; delta: a = k, low_rank: E of the token before
//   out_t = (E q)_t^T S + sums over tokens up to t,  S = E_last S + sum of (F k)_t add_t^T
// The sums need products such as q_t^T (decays between) k_s. All exponents are of decays, so
// nothing overflows. The triangular system of seen_t is inverted once for all columns. Level 1
// allows no rounding of intermediate values to 16 bits. Three terms of bfloat16 would cost six
// products on tensor cores, so sums are on CUDA cores in float32.
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
  // Of producers: inputs as they are, decays, products k k or a b, beta
  static constexpr int kRawQ = 2 * kBuffer, kRawK = kRawQ + kVectors, kDecay = kRawK + kVectors,
                       kRawA = kDecay + kVectors, kRawB = kRawA + (kLowRank ? kVectors : 0),
                       kLower = kRawB + (kLowRank ? kVectors : 0), kBeta = kLower + kSquare;
  // Of consumers: sums of warps, right sides of the system, and its solution
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

// One chunk, by consumers. A thread has rows j * 64 + me / 8 * 4 + i of four columns of the state.
template <class T, class S, Form kForm, int kPieces>
struct ChunkConsumer {
  using P = ChunkPlaces<kForm, kPieces>;
  const MatrixState<T, S>& s;
  float* shared;
  int me, head, column;
  float state[kPieces][4][4];

  static __device__ void barrier() { named_barrier_sync(1, kChunkSide); }
  __device__ int row(int piece) const { return piece * 64 + me / 8 * 4; }

  template <bool kStores>
  __device__ void move(S* of_head) {
    const int c = column + me % 8 * 4;
#pragma unroll
    for (int j = 0; j < kPieces; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (row(j) + i >= s.width || c >= s.values) continue;
        S* const at = of_head + (row(j) + i) * s.state_row + c;
        if constexpr (kStores)
          store_floats(at, state[j][i]);
        else
          load_floats(at, state[j][i]);
      }
  }

  // Adds the products of four tokens' vectors with the thread's rows to `sums`.
  __device__ void multiply(const float* vectors, int first, float (&sums)[4][4]) const {
#pragma unroll
    for (int t = 0; t < 4; ++t)
#pragma unroll
      for (int j = 0; j < kPieces; ++j) {
        const float4 v = four(vectors + (first + t) * P::kWidth + row(j));
#pragma unroll
        for (int c = 0; c < 4; ++c)
          sums[t][c] += (v.x * state[j][0][c] + v.y * state[j][1][c]) +
                        (v.z * state[j][2][c] + v.w * state[j][3][c]);
      }
  }
  // Sums of four tokens over the rows of a warp. Each of its four octets writes those of a token.
  __device__ void write_sums(const float (&sums)[4][4], float* to) const {
    const bool high = me & 16, odd = me & 8;
    float4 v;
    float* const out[4] = {&v.x, &v.y, &v.z, &v.w};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const float even_sum = (high ? sums[2][c] : sums[0][c]) +
                             __shfl_xor_sync(kAllLanes, high ? sums[0][c] : sums[2][c], 16);
      const float odd_sum = (high ? sums[3][c] : sums[1][c]) +
                            __shfl_xor_sync(kAllLanes, high ? sums[1][c] : sums[3][c], 16);
      *out[c] =
          (odd ? odd_sum : even_sum) + __shfl_xor_sync(kAllLanes, odd ? even_sum : odd_sum, 8);
    }
    *reinterpret_cast<float4*>(to + (me % 32 / 8) * kChunkColumns + me % 8 * 4) = v;
  }
  __device__ void multiply_state(const float* from) {
#pragma unroll 1
    for (int t = 0; t < kChunkTokens; t += 4) {
      float* const to = shared + P::kParts + me / 32 * P::kSums * kPanel + t * kChunkColumns;
      float sums[4][4] = {};
      multiply(from + P::kQ, t, sums);
      write_sums(sums, to);
      if constexpr (P::kSees) {
        float seen[4][4] = {};
        multiply(from + P::kA, t, seen);
        write_sums(seen, to + kPanel);
      }
    }
  }

  // Below, a thread has column me % 32 of four tokens from me / 32 * 4 on.
  __device__ int place(int i) const { return (me / 32 * 4 + i) * kChunkColumns + me % 32; }
  __device__ void gather(int which, float (&to)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[i] = 0;
#pragma unroll
      for (int w = 0; w < 4; ++w)
        to[i] += shared[P::kParts + (w * P::kSums + which) * kPanel + place(i)];
    }
  }
  // Adds a triangle of pairs times a panel.
  __device__ void add_product(const float* pairs, const float* panel, float (&to)[4]) const {
#pragma unroll
    for (int t = 0; t < kChunkTokens; t += 4) {
      float v[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) v[k] = panel[(t + k) * kChunkColumns + me % 32];
#pragma unroll
      for (int i = 0; i < 4; ++i)
        to[i] += dot(four(pairs + (me / 32 * 4 + i) * kChunkTokens + t), v);
    }
  }
  // Solves for what the tokens add to the state.
  __device__ void solve(const float* from) {
    float seen[4], solved[4] = {};
    gather(1, seen);
    if constexpr (P::kLowRank) add_product(from + P::kAk, from + P::kV, seen);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float right = seen[i];
      if constexpr (kForm == Form::delta)
        right = from[P::kV + place(i)] - from[P::kKeyScale + me / 32 * 4 + i] * seen[i];
      shared[P::kRight + place(i)] = right;
    }
    barrier();
    add_product(from + P::kInverse, shared + P::kRight, solved);
#pragma unroll
    for (int i = 0; i < 4; ++i) shared[P::kSolved + place(i)] = solved[i];
    barrier();
  }
  __device__ void write(const float* from, int64_t t, int count) {
    float out[4];
    gather(0, out);
    const float* const added = kForm == Form::delta ? shared + P::kSolved : from + P::kV;
    add_product(from + P::kQk, added, out);
    if constexpr (P::kLowRank) add_product(from + P::kQb, shared + P::kSolved, out);
    const int c = column + me % 32;
    if (c >= s.values) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = me / 32 * 4 + i;
      if (token < count)
        s.out[((t + token) * s.heads + head) * s.values + c] =
            from_float<T>(out[i] * from[P::kOutScale + token]);
    }
  }
  // state += vectors^T panel
  __device__ void add_outer(const float* vectors, const float* panel) {
#pragma unroll 4
    for (int t = 0; t < kChunkTokens; ++t) {
      const float4 x = four(panel + t * kChunkColumns + me % 8 * 4);
#pragma unroll
      for (int j = 0; j < kPieces; ++j) {
        float k[4];
        load_floats(vectors + t * P::kWidth + row(j), k);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          state[j][i][0] += k[i] * x.x, state[j][i][1] += k[i] * x.y;
          state[j][i][2] += k[i] * x.z, state[j][i][3] += k[i] * x.w;
        }
      }
    }
  }
  __device__ void consume(const float* from, int64_t t, int count) {
    multiply_state(from);
    barrier();
    if constexpr (P::kSees) solve(from);
    write(from, t, count);
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      float last[4];
      load_floats(from + P::kLast + row(j), last);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int c = 0; c < 4; ++c) state[j][i][c] *= last[i];
    }
    add_outer(from + P::kK, kForm == Form::delta ? shared + P::kSolved : from + P::kV);
    if constexpr (P::kLowRank) add_outer(from + P::kB, shared + P::kSolved);
  }
};

template <class T, class S, Form kForm, int kPieces>
__global__ void __launch_bounds__(2 * kChunkSide) scan_matrix(const MatrixState<T, S> s) {
  using P = ChunkPlaces<kForm, kPieces>;
  wait_for_inputs();
  float* const shared = reinterpret_cast<float*>(dynamic_shared());
  const int request = int(blockIdx.x) / s.heads, head = int(blockIdx.x) % s.heads;
  const int begin = s.starts[request], tokens = s.starts[request + 1] - begin;
  if (tokens == 0) return;
  const int chunks = (tokens + kChunkTokens - 1) / kChunkTokens;
  const int me = int(threadIdx.x) % kChunkSide, column = int(blockIdx.y) * kChunkColumns;
  const auto buffer = [&](int chunk) { return shared + chunk % 2 * P::kBuffer; };
  const auto count = [&](int chunk) { return min(kChunkTokens, tokens - chunk * kChunkTokens); };
  if (int(threadIdx.x) < kChunkSide) {
    const ChunkProducer<T, S, kForm, kPieces> producer{s, shared, me, head, column};
    for (int i = 0; i < chunks; ++i) {
      producer.prepare(buffer(i), int64_t(begin) + i * kChunkTokens, count(i));
      __syncthreads();
    }
  } else {
    ChunkConsumer<T, S, kForm, kPieces> consumer{s, shared, me, head, column, {}};
    S* const of_head = s.state + s.slots[request] * s.slot + head * s.state_head;
    if (s.has_state[request]) consumer.template move<false>(of_head);
    for (int i = 0; i < chunks; ++i) {
      __syncthreads();
      consumer.consume(buffer(i), int64_t(begin) + i * kChunkTokens, count(i));
    }
    consumer.template move<true>(of_head);
  }
}

}  // namespace fkc
