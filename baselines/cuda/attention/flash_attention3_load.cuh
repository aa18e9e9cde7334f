// SPDX-License-Identifier: Apache-2.0
// The work list and the shared memory of flash_attention3.cuh, and its producer warps.
#pragma once
#include "../parts/cp_async.cuh"
#include "../parts/tma.cuh"
#include "params.cuh"

namespace fkc {

namespace tiles {

constexpr int kRows = 128, kKeys = 128, kThreads = 384, kBarriers = 1024, kBox = kKeys * 128;  // a box: rows of 64 elements

// The place of keys and values: in rows, or in pages. TMA loads pages of eight rows and more,
// threads load smaller pages.
enum class Place { rows, pages, small_pages };
constexpr int kPageLeast = 8;  // rows of a page: the swizzle has a period of eight rows

// A tile of rows of a unit of heads, as plan() writes it. An item without rows ends the list of a
// block.
struct Work {
  int token, rows;       // the first query token; tokens times packed heads
  int position, keys;    // the first token's position among the keys; the number of keys
  int where;             // the row of the first key, or the request which has the pages
  int begin, end, unit;  // tiles of keys, taken from `end` down to `begin`
};
static_assert(sizeof(Work) == 32);

struct Arguments {
  const Work* work;  // [blocks, turns]; null: images
  int images, queries, keys, units, image_tiles;  // of images: their number, sizes, units of heads, tiles of a unit
  AttentionCache k, v;    // of small pages
  const int32_t* tables;  // of pages
  int width, page_shift;
  const float* sinks;
  void* out;
  int64_t out_token, out_head;
  int dim;  // elements of a head; the rest of a tile's row is zeros
  int turns, pack_shift, group;  // heads of a unit: 2^pack_shift; of a key head: group
  int window, causal;
  float scale;  // times log2 e
};

template <int D> struct Shared {
  static constexpr int kBoxes = (D + 63) / 64, kStages = D == 64 ? 4 : 3, kBytes = kBoxes * kBox;  // of q, and of a stage of keys or values
  static constexpr int kTotal = 1024 + kBarriers + (1 + 2 * kStages) * kBytes;              // 1024: alignment
  uint32_t base;
  __device__ uint32_t q_full() const { return base; }
  __device__ uint32_t q_empty() const { return base + 8; }
  __device__ uint32_t full(int kind, int n) const { return base + 64 + kind * 128 + n % kStages * 8; }  // kind: 0 keys, 1 values
  __device__ uint32_t empty(int kind, int n) const { return full(kind, n) + 64; }
  __device__ uint32_t q() const { return base + kBarriers; }
  __device__ uint32_t tile(int kind, int n) const { return q() + kBytes * (1 + kind * kStages + n % kStages); }
  __device__ static uint32_t parity(int n) { return uint32_t(n / kStages) & 1; }
  // Waits until the consumers have released the stage.
  __device__ void await_room(int kind, int n) const {
    if (n >= kStages) mbarrier_wait(empty(kind, n), parity(n - kStages));
  }
};
static_assert(Shared<128>::kTotal <= 227 << 10);

// The item of a block's turn in images of the same size. Blocks take turns, and the tiles with the
// same keys follow each other.
__device__ inline Work work_in_images(const Arguments& a, int turn) {
  const int item = turn * int(gridDim.x) + int(blockIdx.x), tile = item % a.image_tiles, unit = item / a.image_tiles;
  if (unit >= a.images * a.units) return Work{};
  const int first = tile * (kRows >> a.pack_shift), image = unit / a.units, rows = (a.queries - first) << a.pack_shift;
  return {image * a.queries + first, min(rows, kRows), first, a.keys, image * a.keys, 0, max((a.keys + kKeys - 1) / kKeys, 1), unit % a.units};
}
// The item of a block's turn. The item after the last one has no rows.
__device__ inline Work work_at(const Arguments& a, int turn) {
  if (turn >= a.turns) return Work{};
  if (!a.work) return work_in_images(a, turn);
  const int4* at = reinterpret_cast<const int4*>(a.work + int64_t(blockIdx.x) * a.turns + turn);
  const int4 low = at[0], high = at[1];
  return {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
}
__device__ inline int key_head(const Arguments& a, const Work& w) { return (w.unit << a.pack_shift) / a.group; }

template <int D> __device__ void fetch_queries(const Shared<D> s, const CUtensorMap& q, const Work& w, int turn) {
  if (turn) mbarrier_wait(s.q_empty(), uint32_t(turn - 1) & 1);
  mbarrier_arrive_expect_tx(s.q_full(), Shared<D>::kBytes);
  for (int i = 0; i < Shared<D>::kBoxes; ++i) tma_load_4d(s.q() + i * kBox, q, i * 64, 0, w.token, w.unit, s.q_full());
}

// By one thread.
template <int D> __device__ void fetch_rows(const Shared<D> s, const CUtensorMap& q, const CUtensorMap& k, const CUtensorMap& v, const Arguments& a) {
  int n = 0;
  Work w = work_at(a, 0);
  for (int turn = 0; w.rows; ++turn) {
    const Work next = work_at(a, turn + 1);
    const int head = key_head(a, w);
    for (int tile = w.end - 1; tile >= w.begin; --tile, ++n) {
#pragma unroll
      for (int kind = 0; kind < 2; ++kind) {
        s.await_room(kind, n);
        mbarrier_arrive_expect_tx(s.full(kind, n), Shared<D>::kBytes);
        for (int i = 0; i < Shared<D>::kBoxes; ++i) tma_load_3d(s.tile(kind, n) + i * kBox, kind ? v : k, i * 64, w.where + tile * kKeys, head, s.full(kind, n));
        if (kind == 0 && tile == w.end - 1) fetch_queries<D>(s, q, w, turn);
      }
    }
    w = next;
  }
}

// By a warp: each lane loads a box of a page. A row without a page becomes zeros.
template <int D> __device__ void fetch_pages(const Shared<D> s, const CUtensorMap& q, const CUtensorMap& k, const CUtensorMap& v, const Arguments& a) {
  constexpr int kBoxes = Shared<D>::kBoxes;
  const int lane = threadIdx.x, slots = 1 << a.page_shift, rows = min(slots, kKeys), own = lane / kBoxes * rows, box = lane % kBoxes;
  const bool mine = own < kKeys;
  const auto page_of = [&](const Work& w, int tile) {
    const int key = tile * kKeys + own;
    return mine && key < w.keys ? a.tables[int64_t(w.where) * a.width + (key >> a.page_shift)] : -1;
  };
  int n = 0;
  Work w = work_at(a, 0);
  int page = page_of(w, w.end - 1);
  for (int turn = 0; w.rows; ++turn) {
    const Work next = work_at(a, turn + 1);
    const int head = key_head(a, w);
    for (int tile = w.end - 1; tile >= w.begin; --tile, ++n) {
      const int slot = (tile * kKeys + own) & (slots - 1), at = page;
      if (tile > w.begin) page = page_of(w, tile - 1);
      else if (next.rows) page = page_of(next, next.end - 1);
#pragma unroll
      for (int kind = 0; kind < 2; ++kind) {
        s.await_room(kind, n);
        if (lane == 0) mbarrier_arrive_expect_tx(s.full(kind, n), Shared<D>::kBytes);
        __syncwarp();
        if (mine) tma_load_4d(s.tile(kind, n) + box * kBox + own * 128, kind ? v : k, box * 64, slot, head, at, s.full(kind, n));
        if (kind == 0 && tile == w.end - 1 && lane == 0) fetch_queries<D>(s, q, w, turn);
      }
    }
    w = next;
  }
}

// By 128 threads. Rows behind the last key become zeros. Each lane finds the place of one of the 32
// rows of its warp, and the lanes exchange these.
template <class T, int D> __device__ void fetch_small_pages(const Shared<D> s, const CUtensorMap& q, const Arguments& a) {
  constexpr int kChunks = D / 8, kAtOnce = 32 / kChunks, kStep = 4 * kAtOnce;  // chunks of 16 bytes; rows of a warp and of all
  const int lane = threadIdx.x % 32, warp = int(threadIdx.x) / 32, chunk = lane % kChunks, first = warp * kAtOnce + lane / kChunks;
  const int own = lane / kAtOnce * kStep + warp * kAtOnce + lane % kAtOnce;  // the row of this lane
  const auto page_of = [&](const Work& w, int tile) {
    const int key = tile * kKeys + own;
    return key < w.keys ? a.tables[int64_t(w.where) * a.width + (key >> a.page_shift)] : -1;
  };
  int n = 0;
  Work w = work_at(a, 0);
  int page = page_of(w, w.end - 1);
  for (int turn = 0; w.rows; ++turn) {
    const Work next = work_at(a, turn + 1);
    const int head = key_head(a, w);
    for (int tile = w.end - 1; tile >= w.begin; --tile, ++n) {
      const int slot = (tile * kKeys + own) & ((1 << a.page_shift) - 1), at = page;
      if (tile > w.begin) page = page_of(w, tile - 1);
      else if (next.rows) page = page_of(next, next.end - 1);
#pragma unroll
      for (int kind = 0; kind < 2; ++kind) {
        const AttentionCache& cache = kind ? a.v : a.k;
        const int64_t known = at < 0 ? -8 : at * cache.page + slot * cache.slot + head * cache.head;
        const T* const from = static_cast<const T*>(cache.data) + chunk * 8;
        s.await_room(kind, n);
        const uint32_t to = s.tile(kind, n) + chunk / 8 * kBox + first * 128 + ((chunk ^ first) & 7) * 16;
#pragma unroll
        for (int i = 0; i < kKeys / kStep; ++i) {
          const int64_t elements = __shfl_sync(0xffffffffu, known, i * kAtOnce + lane / kChunks);
          cp_async_16(to + i * kStep * 128, from + elements, elements >= 0);
        }
        cp_async_mbarrier_arrive(s.full(kind, n));
        if (kind == 0 && tile == w.end - 1 && threadIdx.x == 0) fetch_queries<D>(s, q, w, turn);
      }
    }
    w = next;
  }
}

}  // namespace tiles

}  // namespace fkc
