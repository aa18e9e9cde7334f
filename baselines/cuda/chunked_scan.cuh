// SPDX-License-Identifier: Apache-2.0
// ssd_chunk_scan on tensor cores, after arXiv:2405.21060, section 6. A block has some rows of a head's state for all tokens of a request
// and takes these in chunks: out = (decays o step o C B^T) X + decay C state^T + d X, then state = decay state + (decay step X)^T B.
// Level 1 has no room for values inside that are rounded to 16 bits: float_terms.cuh.
#pragma once
#include <type_traits>

#include "attention_common.cuh"
#include "chunk_factors.cuh"
#include "float_terms.cuh"

namespace fkc {

__device__ inline void load2(const float* from, float& a, float& b) {
  const float2 v = *reinterpret_cast<const float2*>(from);
  a = v.x, b = v.y;
}
template <class T> __device__ void load2(const T* from, float& a, float& b) { a = to_float(from[0]), b = to_float(from[1]); }
__device__ inline void store2(float* to, float a, float b) { *reinterpret_cast<float2*>(to) = make_float2(a, b); }
template <class T> __device__ void store2(T* to, float a, float b) { *reinterpret_cast<uint32_t*>(to) = pair<T>(a, b); }

// Rows of bfloat16 in shared memory, in pieces of eight that are swizzled so that eight rows' pieces are in all banks.
template <int kRows, int kWidth> struct Rows {
  static constexpr int kCount = kRows, kPieces = kWidth / 8, kMixed = kPieces < 8 ? kPieces : 8, kPitch = kWidth * 2, kBytes = kRows * kPitch;
  static __device__ int at(int row, int piece) { return row * kPitch + (piece ^ (row * kMixed / 8 % kMixed)) * 16; }
  // Of load_matrices and load_transposed: the first 16 rows, two pieces. From there, an address, to other rows, an even piece.
  static __device__ int of_lane() { return at(int(threadIdx.x) % 16, int(threadIdx.x) % 32 / 16); }
  static __device__ uint32_t further(uint32_t lane_at, int rows16, int piece) { return (lane_at ^ uint32_t(piece * 16)) + uint32_t(rows16 * 16 * kPitch); }
};

// kWarps: of a block, with 16 rows of the state each.
template <class T, int kDS, int kChunk, int kWarps> struct Chunked {
  static constexpr int kThreads = kWarps * 32, kSlice = kWarps * 16, kBlocks = kChunk / 16,
                       kMine = (kBlocks * (kBlocks + 1) / 2 + kWarps - 1) / kWarps;  // blocks of weights that a warp has
  static constexpr int kParts = std::is_same_v<T, __nv_bfloat16> ? 1 : 2;  // bfloat16 that an input is the sum of
  using Vectors = Rows<kChunk, kDS>;
  using Xs = Rows<kChunk, kSlice>;
  using Weights = Rows<kChunk, kChunk>;
  // In shared memory: two stages of inputs, the weights of X, factors of two chunks.
  static constexpr int kB = 0, kC = kB + kParts * Vectors::kBytes, kX = kC + kParts * Vectors::kBytes, kStage = kX + kParts * Xs::kBytes;
  static constexpr int kWeights = 2 * kStage, kFactors = kWeights + kTerms * Weights::kBytes, kBytes = kFactors + 2 * int(sizeof(Factors<kChunk>));
  static constexpr int kOfProcessor = 232448 / (kBytes + 1024), kByRegisters = 12 / kWarps;  // blocks
  static constexpr int kAtOnce = kOfProcessor < kByRegisters ? kOfProcessor : kByRegisters;

  // Rows from `first` on, zeros from `end` on; from one to the next it is `pitch` bytes.
  template <class Tile> static __device__ void fetch(uint32_t to, const T* from, int pitch, int first, int end) {
    constexpr int kAtOnce = kThreads / Tile::kPieces;
    static_assert(Tile::kCount % kAtOnce == 0 && kAtOnce % 8 == 0);
    const int mine = int(threadIdx.x) / Tile::kPieces, piece = int(threadIdx.x) % Tile::kPieces;
#pragma unroll
    for (int i = 0; i < Tile::kCount / kAtOnce; ++i) {
      const int row = first + mine + i * kAtOnce;
      const T* const its = reinterpret_cast<const T*>(reinterpret_cast<const char*>(from + piece * 8) + int64_t(row) * pitch);
      const uint32_t at = to + Tile::at(mine, piece) + i * kAtOnce * Tile::kPitch;
      if constexpr (kParts == 1) {
        copy_async(at, its, row < end);
      } else {
        Pack<T> pack{};
        if (row < end) pack = load8(its);
        uint32_t parts[2][4];
#pragma unroll
        for (int k = 0; k < 4; ++k) split(to_float(pack.at[2 * k]), to_float(pack.at[2 * k + 1]), parts, k);
#pragma unroll
        for (int p = 0; p < 2; ++p) store_shared(at + p * Tile::kBytes, make_uint4(parts[p][0], parts[p][1], parts[p][2], parts[p][3]));
      }
    }
  }
  template <class Tile> static __device__ void load(uint32_t (&to)[kParts][4], uint32_t from) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) load_matrices(to[p], from + p * Tile::kBytes);
  }
  template <class Tile> static __device__ void load_turned(uint32_t (&to)[kParts][4], uint32_t from) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) load_transposed(to[p], from + p * Tile::kBytes);
  }
  // Of blocks of 16 x 16 up to the diagonal, row by row, where a warp's i-th is.
  static __device__ int row_of(int i) {
    const int n = int(threadIdx.x) / 32 + i * kWarps;
    return int(n >= 1) + int(n >= 3) + int(n >= 6) + int(n >= 10);
  }
  static __device__ int column_of(int i) { return int(threadIdx.x) / 32 + i * kWarps - row_of(i) * (row_of(i) + 1) / 2; }
};

template <class T, class S, int kDS, int kChunk, int kWarps>
__global__ void __launch_bounds__(Chunked<T, kDS, kChunk, kWarps>::kThreads, Chunked<T, kDS, kChunk, kWarps>::kAtOnce) scan_chunks(const Scan<T, S> s) {
  using K = Chunked<T, kDS, kChunk, kWarps>;
  using B16 = __nv_bfloat16;
  using Vectors = typename K::Vectors;
  using Xs = typename K::Xs;
  using Weights = typename K::Weights;
  constexpr int kParts = K::kParts, kBlocks = K::kBlocks, kTiles = kDS / 8;  // of a row, eight elements each
  wait_for_inputs();
  char* const shared = dynamic_shared();
  const uint32_t base = shared_address(shared);
  auto* const factors = reinterpret_cast<Factors<kChunk>*>(shared + K::kFactors);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int request = int(blockIdx.x) / s.heads, head = int(blockIdx.x) % s.heads, slice = int(blockIdx.y) * K::kSlice;
  const int begin = s.starts[request], tokens = s.starts[request + 1] - begin;
  if (tokens == 0) return;
  const T* const c_from = s.c + begin * s.c_token + head / s.group * s.c_group;
  const T* const b_from = s.b + begin * s.b_token + head / s.group * s.b_group;
  const T* const x_from = s.x + begin * s.x_token + head * s.x_head + slice;
  const int c_pitch = int(s.c_token * 2), b_pitch = int(s.b_token * 2), x_pitch = int(s.x_token * 2);  // by_chunks()
  const auto fetch = [&](int first, int turn) {
    const uint32_t to = base + turn * K::kStage;
    K::template fetch<Vectors>(to + K::kC, c_from, c_pitch, first, tokens);
    K::template fetch<Vectors>(to + K::kB, b_from, b_pitch, first, tokens);
    K::template fetch<Xs>(to + K::kX, x_from, x_pitch, first, tokens);
    commit_copies();
  };
  fetch(0, 0);
  const float a = s.a[head], d = s.d.of(head), bias = s.dt_bias.of(head);
  // One warp is a chunk ahead with factors, and two with what they come from.
  const bool ahead = warp == kWarps - 1;
  float dt[kChunk / 32] = {};
  const auto read_dt = [&](int t) {
#pragma unroll
    for (int k = 0; k < kChunk / 32; ++k) {
      const int at = t + lane * (kChunk / 32) + k;
      if (at < tokens) dt[k] = to_float(s.dt[(begin + at) * s.dt_token + head * s.dt_head]) + bias;
    }
  };
  if (ahead) read_dt(0);

  // 16 rows of the state, as sums of products with the rows on the left.
  S* const state_at = s.state + s.slots[request] * s.slot + head * s.state_head + (slice + warp * 16 + lane / 4) * s.state_row + lane % 4 * 2;
  bool carried = s.has_state[request];
  float state[kTiles][4] = {};
  if (carried)
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int r = 0; r < 2; ++r) load2(state_at + r * 8 * s.state_row + t * 8, state[t][2 * r], state[t][2 * r + 1]);

  if (ahead) {
    factors[0].find(s, dt, min(kChunk, tokens), a);
    read_dt(kChunk);
  }

  const uint32_t weights_at = base + K::kWeights + Weights::of_lane();
  T* const out_at = s.out + (int64_t(begin) * s.heads + head) * s.width + slice + warp * 16 + lane % 4 * 2;
  const int out_token = s.heads * s.width;
  for (int first = 0, turn = 0; first < tokens; first += kChunk, turn ^= 1, carried = true) {
    const int count = min(kChunk, tokens - first), blocks = (count + 15) / 16;
    const Factors<kChunk>& f = factors[turn];
    await_copies<0>();
    __syncthreads();
    if (first + kChunk < tokens) {
      fetch(first + kChunk, turn ^ 1);
      if (ahead) {
        factors[turn ^ 1].find(s, dt, min(kChunk, tokens - first - kChunk), a);
        read_dt(first + 2 * kChunk);
      }
    }
    char* const stage = shared + turn * K::kStage;
    const uint32_t at = base + turn * K::kStage, b_at = at + K::kB + Vectors::of_lane(), c_at = at + K::kC + Vectors::of_lane(), x_at = at + K::kX;

    // The weights of X.
#pragma unroll
    for (int i = 0; i < K::kMine; ++i) {
      if (K::row_of(i) >= blocks) continue;
      float sums[2][2][4] = {};  // even and odd ones, which do not wait for each other
#pragma unroll 2
      for (int k = 0; k < kDS / 16; k += 2) {
        uint32_t left[2][kParts][4], right[2][kParts][4];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          K::template load<Vectors>(left[e], Vectors::further(c_at, K::row_of(i), (k + e) * 2));
          K::template load<Vectors>(right[e], Vectors::further(b_at, K::column_of(i), (k + e) * 2));
        }
        each_product<kParts, kParts>([&](int p, int q) {
#pragma unroll
          for (int e = 0; e < 4; ++e) multiply<B16>(sums[e / 2][e % 2], left[e / 2][p], right[e / 2][q][e % 2], right[e / 2][q][e % 2 + 2]);
        });
      }
#pragma unroll
      for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = K::row_of(i) * 16 + h * 8 + lane / 4, column = K::column_of(i) * 16 + j * 8 + lane % 4 * 2;
          float v[2];
#pragma unroll
          for (int k = 0; k < 2; ++k) v[k] = (sums[0][j][2 * h + k] + sums[1][j][2 * h + k]) * f.weight(column + k, row);
          uint32_t terms[kTerms][1];
          split(column <= row ? v[0] : 0.F, column < row ? v[1] : 0.F, terms, 0);
#pragma unroll
          for (int q = 0; q < kTerms; ++q)
            *reinterpret_cast<uint32_t*>(shared + K::kWeights + q * Weights::kBytes + Weights::at(row, column / 8) + lane % 4 * 4) = terms[q][0];
        }
    }

    // C state^T.
    float out[kBlocks][2][4] = {};
    if (carried) {
#pragma unroll
      for (int k = 0; k < kTiles / 2; ++k) {
        uint32_t terms[kTerms][4];  // two of the first eight rows, two of the others
#pragma unroll
        for (int r = 0; r < 4; ++r) split(state[2 * k + r % 2][r / 2 * 2], state[2 * k + r % 2][r / 2 * 2 + 1], terms, r);
#pragma unroll
        for (int m = 0; m < kBlocks; m += 2) {
          uint32_t left[2][kParts][4];
#pragma unroll
          for (int i = 0; i < 2; ++i) K::template load<Vectors>(left[i], Vectors::further(c_at, m + i, k * 2));
          each_product<kParts, kTerms>([&](int p, int q) {
#pragma unroll
            for (int i = 0; i < 4; ++i) multiply<B16>(out[m + i / 2][i % 2], left[i / 2][p], terms[q][i % 2 * 2], terms[q][i % 2 * 2 + 1]);
          });
        }
      }
    }
    __syncthreads();

#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      if (block >= blocks) continue;
      float(&sum)[2][4] = out[block], less[2][4] = {};  // of the first terms, and of the others
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int e = 0; e < 4; ++e) sum[r][e] *= f.from_start[block * 16 + lane / 4 + e / 2 * 8];
#pragma unroll
      for (int k = 0; k <= block; ++k) {
        uint32_t left[kTerms][4], right[kParts][4];
#pragma unroll
        for (int q = 0; q < kTerms; ++q) load_matrices(left[q], Weights::further(weights_at, block, k * 2) + q * Weights::kBytes);
        K::template load_turned<Xs>(right, Xs::further(x_at + Xs::of_lane(), k, warp * 2));
        each_product<kTerms, kParts>([&](int p, int q) {
#pragma unroll
          for (int r = 0; r < 2; ++r) multiply<B16>((p + q ? less : sum)[r], left[p], right[q][2 * r], right[q][2 * r + 1]);
        });
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = block * 16 + h * 8 + lane / 4;
        if (row >= count) continue;
        T* const to = out_at + int64_t(first + row) * out_token;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          float x[2] = {0, 0};
#pragma unroll
          for (int p = 0; p < kParts; ++p) {
            const uint32_t two = *reinterpret_cast<const uint32_t*>(stage + K::kX + p * Xs::kBytes + Xs::at(row, warp * 2 + r) + lane % 4 * 4);
            x[0] += lower_of(two), x[1] += upper_of(two);
          }
          store2(to + r * 8, sum[r][2 * h] + less[r][2 * h] + d * x[0], sum[r][2 * h + 1] + less[r][2 * h + 1] + d * x[1]);
        }
      }
    }

    // The state at the chunk's end.
#pragma unroll
    for (int t = 0; t < kTiles; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) state[t][e] *= f.all[0];
#pragma unroll 1
    for (int k = 0; k < blocks; ++k) {
      uint32_t parts[kParts][4], terms[kTerms][4];
      K::template load_turned<Xs>(parts, x_at + Xs::at(lane / 16 * 8 + lane % 8, warp * 2 + lane / 8 % 2) + k * 16 * Xs::kPitch);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float x[2] = {0, 0};
#pragma unroll
        for (int p = 0; p < kParts; ++p) x[0] += lower_of(parts[p][r]), x[1] += upper_of(parts[p][r]);
        const int token = k * 16 + r / 2 * 8 + lane % 4 * 2;
        split(x[0] * f.to_end[token], x[1] * f.to_end[token + 1], terms, r);
      }
#pragma unroll
      for (int t = 0; t < kTiles; t += 8) {
        uint32_t right[4][kParts][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) K::template load_turned<Vectors>(right[i], Vectors::further(b_at, k, t + i * 2));
        each_product<kTerms, kParts>([&](int p, int q) {
#pragma unroll
          for (int i = 0; i < 8; ++i) multiply<B16>(state[t + i], terms[p], right[i / 2][q][i % 2 * 2], right[i / 2][q][i % 2 * 2 + 1]);
        });
      }
    }
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int r = 0; r < 2; ++r) store2(state_at + r * 8 * s.state_row + t * 8, state[t][2 * r], state[t][2 * r + 1]);
}

}  // namespace fkc
