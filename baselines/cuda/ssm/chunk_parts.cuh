// SPDX-License-Identifier: Apache-2.0
// The shared memory of a block of chunked_scan.cuh, and the steps of its warps.
#pragma once
#include <type_traits>

#include "../parts/cp_async.cuh"
#include "../parts/mma.cuh"
#include "../parts/op.cuh"
#include "../parts/split_bf16.cuh"
#include "chunk_factors.cuh"

namespace fkc {

// Rows of bfloat16 in shared memory, in pieces of eight. Pieces are swizzled, so that those of
// eight rows are in all banks.
template <int kRows, int kWidth> struct Rows {
  static constexpr int kCount = kRows, kPieces = kWidth / 8, kMixed = kPieces < 8 ? kPieces : 8, kPitch = kWidth * 2, kBytes = kRows * kPitch;
  static __device__ int at(int row, int piece) { return row * kPitch + (piece ^ (row * kMixed / 8 % kMixed)) * 16; }
  // The place of a lane for ldmatrix and ldmatrix_trans: the first 16 rows, two pieces. further():
  // from this address to other rows, and an even piece.
  static __device__ int of_lane() { return at(int(threadIdx.x) % 16, int(threadIdx.x) % 32 / 16); }
  static __device__ uint32_t further(uint32_t lane_at, int rows16, int piece) { return (lane_at ^ uint32_t(piece * 16)) + uint32_t(rows16 * 16 * kPitch); }
};

// kWarps: the warps of a group, with 16 rows of the state each.
template <class T, int kDS, int kChunk, int kWarps, int kGroups> struct Chunked {
  static constexpr int kOfGroup = kWarps * 32, kThreads = kGroups * kOfGroup, kSlice = kWarps * 16, kBlocks = kChunk / 16,
                       kSquares = kBlocks * (kBlocks + 1) / 2;  // squares of weights, up to the diagonal, row by row
  static constexpr int kParts = std::is_same_v<T, __nv_bfloat16> ? 1 : 2;  // terms of bfloat16 of an input
  // Terms of the state before a chunk. Two are enough, as results of 16 bits are sums of many of
  // its elements.
  static constexpr int kStateTerms = 2;
  using Vectors = Rows<kChunk, kDS>;
  using Xs = Rows<kChunk, kSlice>;
  using Weights = Rows<kChunk, kChunk>;
  // The layout of shared memory: inputs and weights of X of each group, the state, factors of two
  // chunks of each group, and barriers. Each warp has a barrier for the arrival of its state.
  static constexpr int kB = 0, kC = kB + kParts * Vectors::kBytes, kX = kC + kParts * Vectors::kBytes, kWeights = kX + kParts * Xs::kBytes,
                       kGroup = kWeights + kTerms * Weights::kBytes;
  static constexpr int kState = kGroups * kGroup, kFactors = kState + kSlice * kDS * 4, kPassed = kFactors + 2 * kGroups * int(sizeof(Factors<kChunk>)),
                       kBytes = kPassed + kGroups * kWarps * 8;
  static constexpr int kOfProcessor = 232448 / (kBytes + 1024), kByRegisters = 12 / (kWarps * kGroups);  // blocks
  static constexpr int kAtOnce = kOfProcessor < kByRegisters ? kOfProcessor : kByRegisters;

  // By a group: loads rows from `first` on, with zeros from `end` on. Rows are `pitch` elements
  // apart.
  template <class Tile> static __device__ void fetch(uint32_t to, const T* from, int64_t pitch, int first, int end) {
    constexpr int kAtOnce = kOfGroup / Tile::kPieces;
    static_assert(Tile::kCount % kAtOnce == 0 && (kAtOnce % 8 == 0 || 8 % kAtOnce == 0));
    const int thread = int(threadIdx.x) % kOfGroup, mine = thread / Tile::kPieces, piece = thread % Tile::kPieces;
#pragma unroll
    for (int i = 0; i < Tile::kCount / kAtOnce; ++i) {
      const int row = first + mine + i * kAtOnce;
      const T* const its = from + row * pitch + piece * 8;
      const uint32_t at = to + Tile::at(mine + i * kAtOnce % 8, piece) + i * kAtOnce / 8 * 8 * Tile::kPitch;
      if constexpr (kParts == 1) {
        cp_async_16(at, its, row < end);
      } else {
        Vec8<T> pack{};
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
    for (int p = 0; p < kParts; ++p) ldmatrix(to[p], from + p * Tile::kBytes);
  }
  template <class Tile> static __device__ void load_turned(uint32_t (&to)[kParts][4], uint32_t from) {
#pragma unroll
    for (int p = 0; p < kParts; ++p) ldmatrix_trans(to[p], from + p * Tile::kBytes);
  }

  // A warp's 16 rows of the state in shared memory, in the layout of its sums: four float32 of each
  // tile for each lane. So no lane reads elements of another one.
  static constexpr int kRowsBytes = 16 * kDS * 4;
  static __device__ int of_lane() { return kState + (int(threadIdx.x) / 32 % kWarps) * kRowsBytes + int(threadIdx.x) % 32 * 16; }
  template <class S> static __device__ void fetch_state(char* shared, const S* from, int64_t pitch) {
    const S* const its = from + int(threadIdx.x) % 32 / 4 * pitch + int(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int t = 0; t < kDS / 8; ++t)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        char* const to = shared + of_lane() + t * 512 + r * 8;
        if constexpr (std::is_same_v<S, float>) cp_async_8(shared_address(to), its + r * 8 * pitch + t * 8);
        else {
          float2 v;
          load_floats(its + r * 8 * pitch + t * 8, v.x, v.y);
          *reinterpret_cast<float2*>(to) = v;
        }
      }
  }

  // The weights of X in a warp's squares, from number `first` on.
  template <int kMine> static __device__ void weigh(char* shared, int group_at, const Factors<kChunk>& f, float d, int first) {
    const int lane = int(threadIdx.x) % 32;
    const uint32_t at = shared_address(shared) + group_at + Vectors::of_lane();
    const int to = group_at + kWeights + Weights::at(lane / 4, 0) + lane % 4 * 4;  // in the first eight rows
    int row_of[kMine], column_of[kMine];
    float sums[kMine][2][2][4] = {};  // even and odd steps, which do not wait for each other
#pragma unroll
    for (int i = 0; i < kMine; ++i) {
      const int n = first + i * kWarps;
      row_of[i] = int(n >= 1) + int(n >= 3) + int(n >= 6), column_of[i] = n - row_of[i] * (row_of[i] + 1) / 2;
    }
#pragma unroll 2
    for (int k = 0; k < kDS / 16; k += 2)
#pragma unroll
      for (int i = 0; i < kMine; ++i) {
        uint32_t left[2][kParts][4], right[2][kParts][4];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          load<Vectors>(left[e], Vectors::further(at + kC, row_of[i], (k + e) * 2));
          load<Vectors>(right[e], Vectors::further(at + kB, column_of[i], (k + e) * 2));
        }
        each_product<kParts, kParts>([&](int p, int q) {
#pragma unroll
          for (int e = 0; e < 4; ++e) mma_m16n8k16<__nv_bfloat16>(sums[i][e / 2][e % 2], left[e / 2][p], right[e / 2][q][e % 2], right[e / 2][q][e % 2 + 2]);
        });
      }
#pragma unroll
    for (int i = 0; i < kMine; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const int row = row_of[i] * 16 + h * 8 + lane / 4, column = column_of[i] * 16 + j * 8 + lane % 4 * 2;
          float v[2];
#pragma unroll
          for (int k = 0; k < 2; ++k) {
            const float weight = (sums[i][0][j][2 * h + k] + sums[i][1][j][2 * h + k]) * f.weight(column + k, row);
            v[k] = column + k < row ? weight : column + k == row ? weight + d : 0.F;
          }
          uint32_t terms[kTerms][1];
          split(v[0], v[1], terms, 0);
#pragma unroll
          for (int q = 0; q < kTerms; ++q)
            *reinterpret_cast<uint32_t*>(shared + (to ^ (column_of[i] * 2 + j) * 16) + (row_of[i] * 16 + h * 8) * Weights::kPitch + q * Weights::kBytes) = terms[q][0];
        }
  }

  // The methods below are for a warp and its 16 rows of the state. `warp`: its number in the group.
  static constexpr int kTiles = kDS / 8;  // of a row of the state, eight elements each

  // Adds (decay step X)^T B of a chunk to `state`.
  static __device__ void add_chunk(float (&state)[kTiles][4], const Factors<kChunk>& f, uint32_t x_at, uint32_t b_at, int blocks, int warp) {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll 1
    for (int k = 0; k < blocks; ++k) {
      uint32_t parts[kParts][4], terms[kTerms][4];
      load_turned<Xs>(parts, x_at + Xs::at(lane / 16 * 8 + lane % 8, warp * 2 + lane / 8 % 2) + k * 16 * Xs::kPitch);
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
        for (int i = 0; i < 4; ++i) load_turned<Vectors>(right[i], Vectors::further(b_at, k, t + i * 2));
        each_product<kTerms, kParts>([&](int p, int q) {
#pragma unroll
          for (int i = 0; i < 8; ++i) mma_m16n8k16<__nv_bfloat16>(state[t + i], terms[p], right[i / 2][q][i % 2 * 2], right[i / 2][q][i % 2 * 2 + 1]);
        });
      }
    }
  }

  // C state^T. The products of the first terms go to `out`, the others to `less`.
  static __device__ void multiply_state(float (&out)[kBlocks][2][4], float (&less)[kBlocks][2][4], const float (&state)[kTiles][4], uint32_t c_at) {
#pragma unroll
    for (int k = 0; k < kTiles / 2; ++k) {
      uint32_t terms[kStateTerms][4];  // two for the first eight rows, two for the others
#pragma unroll
      for (int r = 0; r < 4; ++r) split(state[2 * k + r % 2][r / 2 * 2], state[2 * k + r % 2][r / 2 * 2 + 1], terms, r);
#pragma unroll
      for (int m = 0; m < kBlocks; ++m) {
        uint32_t left[kParts][4];
        load<Vectors>(left, Vectors::further(c_at, m, k * 2));
        each_product<kParts, kStateTerms>([&](int p, int q) {
#pragma unroll
          for (int r = 0; r < 2; ++r) mma_m16n8k16<__nv_bfloat16>((p + q ? less : out)[m][r], left[p], terms[q][r * 2], terms[q][r * 2 + 1]);
        });
      }
    }
  }

  // Decays `out` and `less` from the start of the chunk, and adds weights X.
  static __device__ void multiply_weights(float (&out)[kBlocks][2][4], float (&less)[kBlocks][2][4], const Factors<kChunk>& f, uint32_t weights_at,
                                          uint32_t x_at, int warp) {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float decayed = f.from_start[block * 16 + lane / 4 + e / 2 * 8];
          out[block][r][e] *= decayed, less[block][r][e] *= decayed;
        }
#pragma unroll
      for (int k = 0; k <= block; ++k) {
        uint32_t left[kTerms][4], right[kParts][4];
#pragma unroll
        for (int q = 0; q < kTerms; ++q) ldmatrix(left[q], Weights::further(weights_at, block, k * 2) + q * Weights::kBytes);
        load_turned<Xs>(right, Xs::further(x_at + Xs::of_lane(), k, warp * 2));
        each_product<kTerms, kParts>([&](int p, int q) {
#pragma unroll
          for (int r = 0; r < 2; ++r) mma_m16n8k16<__nv_bfloat16>((p + q ? less : out)[block][r], left[p], right[q][2 * r], right[q][2 * r + 1]);
        });
      }
    }
  }

  // Writes the rows of a chunk from token `first` on.
  template <class S>
  static __device__ void write_rows(const float (&out)[kBlocks][2][4], const float (&less)[kBlocks][2][4], const Scan<T, S>& s, int first, int head, int slice,
                                    int count, int warp) {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = block * 16 + h * 8 + lane / 4;
        if (row >= count) continue;
        T* const to = s.out + (int64_t(first + row) * s.heads + head) * s.width + slice + warp * 16 + lane % 4 * 2;
#pragma unroll
        for (int r = 0; r < 2; ++r) store_floats(to + r * 8, out[block][r][2 * h] + less[block][r][2 * h], out[block][r][2 * h + 1] + less[block][r][2 * h + 1]);
      }
  }
};

}  // namespace fkc
