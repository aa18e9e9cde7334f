// SPDX-License-Identifier: Apache-2.0
// What a block of ssd_chunk_scan on tensor cores has in shared memory, and what its warps do with it (chunked_scan.cuh).
#pragma once
#include <type_traits>

#include "../parts/cp_async.cuh"
#include "../parts/mma.cuh"
#include "../parts/op.cuh"
#include "../parts/split_bf16.cuh"
#include "chunk_factors.cuh"

namespace fkc {

// Rows of bfloat16 in shared memory, in pieces of eight that are swizzled so that eight rows' pieces are in all banks.
template <int kRows, int kWidth> struct Rows {
  static constexpr int kCount = kRows, kPieces = kWidth / 8, kMixed = kPieces < 8 ? kPieces : 8, kPitch = kWidth * 2, kBytes = kRows * kPitch;
  static __device__ int at(int row, int piece) { return row * kPitch + (piece ^ (row * kMixed / 8 % kMixed)) * 16; }
  // Of ldmatrix and ldmatrix_trans: the first 16 rows, two pieces. From there, an address, to other rows, an even piece.
  static __device__ int of_lane() { return at(int(threadIdx.x) % 16, int(threadIdx.x) % 32 / 16); }
  static __device__ uint32_t further(uint32_t lane_at, int rows16, int piece) { return (lane_at ^ uint32_t(piece * 16)) + uint32_t(rows16 * 16 * kPitch); }
};

// kWarps: of a group, with 16 rows of the state each.
template <class T, int kDS, int kChunk, int kWarps, int kGroups> struct Chunked {
  static constexpr int kOfGroup = kWarps * 32, kThreads = kGroups * kOfGroup, kSlice = kWarps * 16, kBlocks = kChunk / 16,
                       kSquares = kBlocks * (kBlocks + 1) / 2;  // of weights, up to the diagonal, row by row
  static constexpr int kParts = std::is_same_v<T, __nv_bfloat16> ? 1 : 2;  // bfloat16 that an input is the sum of
  // Of the state before a chunk: what many elements of it are the sum of, in 16 bits, is as good with two.
  static constexpr int kStateTerms = 2;
  using Vectors = Rows<kChunk, kDS>;
  using Xs = Rows<kChunk, kSlice>;
  using Weights = Rows<kChunk, kChunk>;
  // In shared memory: of each group inputs and the weights of X; the state; of each group factors of two chunks; of each warp whether its state is there.
  static constexpr int kB = 0, kC = kB + kParts * Vectors::kBytes, kX = kC + kParts * Vectors::kBytes, kWeights = kX + kParts * Xs::kBytes,
                       kGroup = kWeights + kTerms * Weights::kBytes;
  static constexpr int kState = kGroups * kGroup, kFactors = kState + kSlice * kDS * 4, kPassed = kFactors + 2 * kGroups * int(sizeof(Factors<kChunk>)),
                       kBytes = kPassed + kGroups * kWarps * 8;
  static constexpr int kOfProcessor = 232448 / (kBytes + 1024), kByRegisters = 12 / (kWarps * kGroups);  // blocks
  static constexpr int kAtOnce = kOfProcessor < kByRegisters ? kOfProcessor : kByRegisters;

  // By a group: rows from `first` on, zeros from `end` on; from one to the next it is `pitch` elements.
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

  // A warp's 16 rows of the state in shared memory: of a lane its sums of products with these rows on the left, four in float32 of each
  // tile. So no lane needs another one's.
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

  // The weights of X in a warp's squares, from its `first` one on.
  template <int kMine> static __device__ void weigh(char* shared, int group_at, const Factors<kChunk>& f, float d, int first) {
    const int lane = int(threadIdx.x) % 32;
    const uint32_t at = shared_address(shared) + group_at + Vectors::of_lane();
    const int to = group_at + kWeights + Weights::at(lane / 4, 0) + lane % 4 * 4;  // in the first eight rows
    int row_of[kMine], column_of[kMine];
    float sums[kMine][2][2][4] = {};  // even and odd ones, which do not wait for each other
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
};

}  // namespace fkc
