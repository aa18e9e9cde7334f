// SPDX-License-Identifier: Apache-2.0
// The shared memory of a block of quantized_kernel.cuh, and its tiles.
#pragma once
#include "../parts/barrier.cuh"
#include "../parts/op.cuh"
#include "quantized_formats.cuh"

namespace fkc {

namespace quantized {

constexpr int kStagesMax = 8, kBox = 128;  // bytes of a row of a box
constexpr int kExpertsMax = 1024, kTilesMax = 8, kSources = 128, kSharedMax = 224 << 10;
__host__ __device__ constexpr int helpers_of(int parts) { return parts == 2 ? 4 : parts; }
__host__ __device__ constexpr int table_of(int parts) { return kSources + helpers_of(parts) * kTilesMax * 8 * 4; }
constexpr int threads_of(int parts, int groups) { return 32 * (parts * groups + helpers_of(parts) + 1); }
constexpr int groups_max(int tiles) { return tiles > 4 ? 4 : 7; }  // of 16 rows of weights
// The boxes of a stage: as many as registers allow warps to multiply them. With more tiles of x, a
// deeper ring pays more.
constexpr int parts_for(int tiles, int groups) { return tiles > 1 || groups > 6 ? 2 : groups > 4 ? 3 : 4; }
constexpr int groups_max(int tiles, int parts) { return parts == 2 ? groups_max(tiles) : parts == 3 ? 6 : 4; }
// Stages of x in flight for a thread: at most the stages of the ring. With fewer, x does not wait
// for products of the previous stage.
__host__ __device__ constexpr int lag_of(int tiles, int parts) { return tiles * parts > 5 ? 2 : 3; }

// The layout of shared memory, in bytes from its aligned beginning. The host sizes the memory by
// the same rules.
struct Plan {
  int groups, rows, columns, stages;  // groups: 16 rows of weights of a tile each. rows: of x. columns: tiles of n
  int x, stage, ring, sums, bytes;    // x: in a stage
};
template <class W> Plan plan_of(int groups, int tiles, int64_t n, int64_t experts) {
  const int rows = tiles * 8, parts = parts_for(tiles, groups);
  Plan p{groups, rows, int(cdiv(n, groups * 16)), 0, parts * groups * 16 * kBox, 0, 0, 0, 0};
  p.stage = p.x + parts * rows * W::kUnit * 2;
  p.sums = int(cdiv(table_of(parts) + 2 * (experts + 1) * 4, 1024) * 1024);
  p.ring = p.sums + (parts - 1) * groups * 512 * tiles;
  p.ring = int(cdiv(p.ring, 1024) * 1024);
  p.stages = std::min(kStagesMax, (kSharedMax - 1024 - p.ring) / p.stage);
  p.bytes = 1024 + p.ring + p.stages * p.stage;
  return p;
}

// The tiles of a block, fewer than 2^31 (need_features()), and the stages of each tile. If an
// expert has more rows than a tile, tiles with the same weights follow each other.
struct Walk {
  const int *starts, *before;  // of every expert: the first assignment; the tiles of rows of lower experts
  const Plan& p;
  int experts, chunks, chunk = 0, tile = int(blockIdx.x);
  int expert = 0, begin = 0, rows = 0, first = 0;  // begin, rows: assignments. first: row of weights
  bool more = false;
  __device__ Walk(const int* starts, const Plan& plan, int experts, int chunks)
      : starts(starts), before(starts + experts + 1), p(plan), experts(experts), chunks(chunks) {
    find();
  }
  __device__ void find() {
    more = tile < before[experts] * p.columns;
    if (!more) return;
    int low = 0;
    for (int high = experts; high - low > 1;) {
      const int middle = (low + high) / 2;
      (before[middle] * p.columns <= tile ? low : high) = middle;
    }
    expert = low;
    const int parts = before[low + 1] - before[low], at = tile - before[low] * p.columns;
    begin = starts[low], rows = starts[low + 1] - begin, first = at;
    if (parts > 1) {  // rare, and a division is slow
      const int each = (rows + parts - 1) / parts, from = at % parts * each;
      begin += from, rows = min(each, rows - from), first = at / parts;
    }
    first *= p.groups * 16;
  }
  __device__ void next() {
    if (++chunk < chunks) return;
    chunk = 0, tile += gridDim.x;
    find();
  }
};

struct Ring {
  const Plan& p;
  uint32_t base;
  int stage = 0, turn = 0;
  __device__ uint32_t full() const { return base + stage * 8; }
  __device__ uint32_t empty() const { return base + 64 + stage * 8; }
  __device__ uint32_t at() const { return base + p.ring + stage * p.stage; }
  __device__ void await_empty() const {
    if (turn > 0) mbarrier_wait(empty(), (turn - 1) & 1);
  }
  __device__ void next() {
    if (++stage == p.stages) stage = 0, ++turn;
  }
};

// The place of eight columns of x in a box, swizzled so that lanes which read together find
// different banks.
template <class W> __device__ uint32_t place(int row, int chunk) { return (row * (W::kUnit / 8) + (chunk ^ (chunk >> 3 & 3) ^ (row & 1) << W::kRowBit)) * 16; }

}  // namespace quantized

}  // namespace fkc
