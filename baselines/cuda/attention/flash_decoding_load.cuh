// SPDX-License-Identifier: Apache-2.0
// The loads of flash_decoding.cuh: a block's share of a context, a warp's ring of keys and values,
// and queries. In decode also the new token of the step.
#pragma once
#include "../parts/cp_async.cuh"
#include "../parts/mma.cuh"
#include "../parts/op.cuh"
#include "../parts/rope.cuh"
#include "../parts/swizzle.cuh"
#include "params.cuh"

namespace fkc::decode {

constexpr int kWarps = 4, kStages = 3, kKeys = 16;  // kKeys: of a tile
constexpr int kSplitsMax = 16;

// A tile of keys or of values in shared memory: rows of D elements, in chunks of 16 bytes.
template <int D> struct Tile {
  static constexpr int kChunks = D / 8, kBytes = kKeys * D * 2;
  static __device__ uint32_t at(uint32_t base, int row, int chunk) {
    return swizzled<kChunks>(base, row, chunk);
  }
};

// The request of a block, and the block's share of its context.
struct Share {
  int request = blockIdx.x, kv_head = blockIdx.y, split = blockIdx.z;
  // First query token, tokens, keys; tokens times heads of the group.
  int start = 0, count = 0, length = 0, rows = 0;
  const int32_t* table = nullptr;
  int begin = 0, end = 0;  // tiles of keys
  __device__ void read(const AttentionParams& p) {
    start = p.starts[request], count = p.starts[request + 1] - start, length = p.lengths[request];
    rows = count * p.group;
  }
  // The tiles which any row sees, divided by the blocks of the cluster.
  __device__ void divide(const AttentionParams& p) {
    table = p.tables + int64_t(request) * p.width;
    const int first_seen = p.window > 0 ? max(0, length - count - p.window + 1) / kKeys : 0;
    const int tiles = (length + kKeys - 1) / kKeys - first_seen;
    begin = first_seen + int(int64_t(tiles) * split / p.splits);
    end = first_seen + int(int64_t(tiles) * (split + 1) / p.splits);
  }
};

// A warp's copies from pages into its ring. The page of a tile is read one tile ahead of the copy.
// If pages hold whole tiles, a lane knows the tile's page, else the page of the row which has the
// lane's number.
template <class T, int D> struct Loader {
  static constexpr int kChunks = D / 8, kRowsAtOnce = 32 / kChunks;
  const AttentionParams& p;
  const Share& share;
  uint32_t base;  // of the rings of all warps
  int lane, warp;
  bool whole = p.page_shift >= 4;
  int chunk = lane % kChunks, first_row = lane / kChunks;
  const T* k_of = static_cast<const T*>(p.k.data) + share.kv_head * p.k.head + chunk * 8;
  const T* v_of = static_cast<const T*>(p.v.data) + share.kv_head * p.v.head + chunk * 8;
  int page = 0, next = 0;

  __device__ uint32_t stage_at(int stage) const {
    return base + (warp * kStages + stage) * 2 * Tile<D>::kBytes;
  }
  __device__ void find_page(int tile) {
    const int position = tile * kKeys + (whole ? 0 : lane % kKeys);
    if (tile < share.end && position < share.length)
      page = share.table[whole ? position >> p.page_shift : position / p.page_size];
  }
  __device__ void load_page(uint32_t keys, int first) const {
    const int64_t slot = (first & (p.page_size - 1)) + first_row;
    const T* k = k_of + page * p.k.page + slot * p.k.slot;
    const T* v = v_of + page * p.v.page + slot * p.v.slot;
#pragma unroll
    for (int i = 0; i < kKeys / kRowsAtOnce; ++i) {
      const int row = i * kRowsAtOnce + first_row;
      const bool there = first + row < share.length;
      cp_async_16(Tile<D>::at(keys, row, chunk), k, there);
      cp_async_16(Tile<D>::at(keys + Tile<D>::kBytes, row, chunk), v, there);
      k += kRowsAtOnce * p.k.slot;
      v += kRowsAtOnce * p.v.slot;
    }
  }
  __device__ void load_rows(uint32_t keys, int first) const {
    for (int i = 0; i < kKeys / kRowsAtOnce; ++i) {
      const int row = i * kRowsAtOnce + first_row;
      const int64_t page_of = __shfl_sync(kAllLanes, page, row), slot = (first + row) % p.page_size;
      const bool there = first + row < share.length;
      cp_async_16(Tile<D>::at(keys, row, chunk), k_of + page_of * p.k.page + slot * p.k.slot, there);
      cp_async_16(Tile<D>::at(keys + Tile<D>::kBytes, row, chunk),
                  v_of + page_of * p.v.page + slot * p.v.slot, there);
    }
  }
  // Loads the next tile of this warp into a stage, and finds the page of the one after it.
  __device__ void load_next(int stage) {
    if (next < share.end) {
      if (whole) load_page(stage_at(stage), next * kKeys);
      else load_rows(stage_at(stage), next * kKeys);
    }
    cp_async_commit();
    next += kWarps;
    find_page(next);
  }
  // Fills the ring but for one stage.
  __device__ void prologue() {
    next = share.begin + warp;
    find_page(next);
#pragma unroll
    for (int s = 0; s < kStages - 1; ++s) load_next(s);
  }
};

// Rotates the key of the new token, and writes key and value to the cache. One warp does it: the
// warp which has the token's tile.
template <class T, int D>
__device__ void append_token(const AttentionParams& p, const FreshToken& fresh, const Share& share,
                             int64_t position) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t slot = fresh.slots[share.start];
  if (share.split != p.splits - 1 || warp != (share.end - 1 - share.begin) % kWarps || slot < 0)
    return;
  const T* token =
      static_cast<const T*>(fresh.qkv) + share.start * fresh.token + share.kv_head * D;
  const auto place = [&](const AttentionCache& cache) {
    return static_cast<T*>(const_cast<void*>(cache.data)) + slot / p.page_size * cache.page +
           slot % p.page_size * cache.slot + share.kv_head * cache.head;
  };
  if (lane < D / 16) {
    Vec8<T> a = load8(token + fresh.k + lane * 8), b = load8(token + fresh.k + D / 2 + lane * 8);
    rotate_pairs(a, b, Angles(fresh.table + position * D + lane * 8, D / 2));
    store8(place(p.k) + lane * 8, a);
    store8(place(p.k) + D / 2 + lane * 8, b);
  } else if (lane >= 16 && lane < 16 + D / 8) {
    store8(place(p.v) + (lane - 16) * 8, load8(token + fresh.v + (lane - 16) * 8));
  }
  __threadfence_block();
  __syncwarp();
}

// Queries as columns of a fragment: a lane has row lane / 4 of every eight, two elements of D at once.
template <class T, int D, int kN>
__device__ void load_queries(uint32_t (&query)[kN][D / 16][2], const AttentionParams& p,
                             const Share& share) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int t = 0; t < kN; ++t) {
    const int row = min(t * 8 + lane / 4, share.rows - 1);
    const T* q = static_cast<const T*>(p.q) + (share.start + row / p.group) * p.q_token +
                 (share.kv_head * p.group + row % p.group) * p.q_head;
#pragma unroll
    for (int k = 0; k < D / 16; ++k)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        query[t][k][h] = *reinterpret_cast<const uint32_t*>(q + k * 16 + h * 8 + lane % 4 * 2);
  }
}
template <class T, int D, int kN>
__device__ void rotate_queries(uint32_t (&query)[kN][D / 16][2], const FreshToken& fresh,
                               int64_t position) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < D / 32; ++k)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float* cosine = fresh.table + position * D + k * 16 + h * 8 + lane % 4 * 2;
      const float2 c = *reinterpret_cast<const float2*>(cosine),
                   s = *reinterpret_cast<const float2*>(cosine + D / 2);
#pragma unroll
      for (int t = 0; t < kN; ++t) rotate_two<T>(query[t][k][h], query[t][k + D / 32][h], c, s);
    }
}

}  // namespace fkc::decode
