// SPDX-License-Identifier: Apache-2.0
// The arguments and the shared memory of streamed_gemv_kernel.cuh.
#pragma once
#include "../parts/op.cuh"

namespace fkc {

namespace gemv {

// plain: out = x @ weight^T (+ bias). gated: out = silu(x @ gate^T) * (x @ up^T); the weight has
// rows of gate, then of up, and a tile 8 rows of both. combined: out = the sum of scale * (x @
// weight^T) over the experts of a token.
enum class Mode { plain, gated, combined };

constexpr int kWarps = 8, kRows = 16, kTokensMax = 16, kAssignmentsMax = 32, kStagesMax = 8;
constexpr int kBox = 256, kChunk = 512;  // elements of K of one copy, and of a stage
constexpr int kStage = kRows * kChunk * 2, kSharedMax = 224 << 10;  // bytes
constexpr int kColumnPitch = 20;  // floats per row of x in partial sums: 16, spread over the banks
constexpr int kParts = 2;  // sets of partial sums, so that warps need not wait for each other
constexpr int kTilesOfMany = 64;  // tiles of out which keep enough blocks busy
constexpr int kXMax = 32;         // pieces of x with an mbarrier each
enum : int {
  kFull = 0,
  kEmpty = kStagesMax,
  kX = 2 * kStagesMax,
  kPart = kX + kXMax,
  kPartFree = kPart + 2,
  kGather = kPartFree + 2,
  kGatherFree = kGather + 4,
  kBarriers = kGatherFree + 8
};
constexpr int kZeros = 1008, kTable = 1024,
              kRing = 4096;  // bytes: 16 of zeros for absent rows of x, the routing, the ring
static_assert(kBarriers * 8 <= kZeros);

// The routing of up to 16 tokens to their experts, in shared memory.
struct Table {
  int count, expert[kAssignmentsMax];       // all chosen experts, ascending
  int8_t row[kAssignmentsMax][kTokensMax];  // the assignment of a token; -1: no assignment
  float scale[kAssignmentsMax][kTokensMax];
};
static_assert(kTable + sizeof(Table) <= kRing);

// The layout of shared memory, in bytes. The host sizes the memory by the same rules.
struct Plan {
  int split, slice, stages;  // blocks of a cluster, elements of K in each, stages of the ring
  int x_chunks, x_pitch, x, part, gather, bytes;  // x_chunks: of a piece of x
};
// If `stages` is below two, x does not fit. out_tiles: with few of them, K is divided between more
// blocks, which fetch their weights sooner.
inline Plan plan_of(int tokens, int x_rows, int k, int64_t out_tiles = kTilesOfMany) {
  const int tiles = tokens <= 8 ? 1 : 2;
  Plan p{};
  const int sums = tiles * 8 * kColumnPitch * 4;
  for (p.split = 1;; p.split *= 2) {
    p.slice = int(cdiv(cdiv(k, p.split), kBox) * kBox);
    p.x_pitch = std::min(p.slice, k) * 2 + 16;
    p.x_chunks = int(cdiv(cdiv(p.slice, kChunk), kXMax));
    const int x = int(cdiv(x_rows * p.x_pitch, 128) * 128),
              gather = p.split > 1 ? p.split * sums : 0;
    p.stages =
        std::min((kSharedMax - kRing - x - kParts * kWarps * sums - gather) / kStage, kStagesMax);
    p.x = kRing + std::max(p.stages, 0) * kStage;
    p.part = p.x + x;
    p.gather = p.part + kParts * kWarps * sums;
    p.bytes = p.gather + gather;
    const bool busy = out_tiles * p.split >= kTilesOfMany || p.slice <= 2 * kBox;
    if ((x <= (72 << 10) && p.stages >= 4 && busy) || p.split == 8) return p;
  }
}

template <class T, class O>
struct Arguments {
  const T* x;
  int64_t x_step;
  const O* bias;
  O* out;  // [x_rows or tokens, n]; gated experts: [assignments, n]
  int tokens, x_rows, n, k;
  const int32_t* ids;   // experts: [tokens, top_k]
  const float* scales;  // likewise
  int top_k;
};

}  // namespace gemv

}  // namespace fkc
