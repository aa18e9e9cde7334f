// SPDX-License-Identifier: Apache-2.0
// Attention of many query rows on Hopper, after FlashAttention-3, in tiles of 128 rows by 128 keys.
// If the number of heads with one key head divides 128, these heads are packed into rows. Blocks
// are persistent. plan() has listed the tiles of each block.
//   warps 0-3   load q, and fill a ring of keys and a ring of values: one warp with TMA, or all of them
//               row by row if pages are small
//   warps 4-11  two warpgroups with 64 rows each: scores by wgmma, softmax in registers, values by
//               wgmma. While scores of a tile of keys are computed, the values of the previous tile are
//               added, across the end of a tile of rows too. The warpgroups take turns on the tensor
//               cores.
#pragma once
#include "../parts/op.cuh"
#include "../parts/softmax.cuh"
#include "../parts/tma.cuh"
#include "../parts/wgmma.cuh"
#include "flash_attention3_load.cuh"

namespace fkc {

namespace tiles {

// The rows of a thread: two of the 16 of its warp.
struct Rows {
  float most[2], sum[2];
};

// Turns scores into weights, in place. `shrink`: the factors of earlier sums, as the maxima may
// have grown.
__device__ inline void online_softmax(float (&scores)[kKeys / 2], Rows& rows, float scale, float (&shrink)[2]) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float most = rows.most[h];
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j) most = fmaxf(most, fmaxf(scores[j * 4 + h * 2], scores[j * 4 + h * 2 + 1]));
    most = quad_max(most);
    const float zero = most == -INFINITY ? 0.F : most * scale;
    shrink[h] = exp2_approx(rows.most[h] * scale - zero);
    rows.most[h] = most;
    float sum = rows.sum[h] * shrink[h];
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float& score = scores[j * 4 + h * 2 + i];
        score = exp2_approx(score * scale - zero);
        sum += score;
      }
    rows.sum[h] = sum;
  }
}

// Divides the sums of a thread's two rows and writes them to out. A lane has two of every eight
// columns.
template <class T, int D> __device__ void write_rows(const float (&sums)[D / 2], const Rows& rows, const Arguments& a, int first, int token, int count, int unit) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float sum = quad_sum(rows.sum[h]);
    const int row = first + h * 8, head = (unit << a.pack_shift) + (row & ((1 << a.pack_shift) - 1));
    float factor = 1;
    if (a.sinks && row < count) factor = add_sink(a.sinks[head] * kLog2e, rows.most[h] * a.scale, sum);
    factor = sum > 0 ? factor / sum : 0.F;
    T* const to = static_cast<T*>(a.out) + int64_t(token + (row >> a.pack_shift)) * a.out_token + head * a.out_head;
#pragma unroll
    for (int from = 0; from < D / 8; from += 4) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = min(from + i, D / 8 - 1) * 4 + h * 2;
        words[i] = pack2<T>(sums[at] * factor, sums[at + 1] * factor);
      }
      transpose_quad(words);
      if (row < count && (from + lane % 4) * 8 < a.dim) *reinterpret_cast<uint4*>(to + (from + lane % 4) * 8) = make_uint4(words[0], words[1], words[2], words[3]);
    }
  }
}

// By a warpgroup, for its 64 rows.
// long: one software pipeline over registers. Its steps are the lambdas at the beginning, which
// share all of its state.
template <class T, int D, Place kPlace> __device__ void attend_rows(const Shared<D> s, const Arguments& a) {
  const int group = int(threadIdx.x) / 128 - 1, lane = threadIdx.x % 32, first = group * 64 + int(threadIdx.x) / 32 % 4 * 16 + lane / 4;
  const auto my_turn = [&] { named_barrier_sync(1 + group, 256); };
  const auto others_turn = [&] { named_barrier_arrive(2 - group, 256); };
  const auto release = [&](uint32_t barrier) {
    if (lane == 0) mbarrier_arrive(barrier);
  };
  Work now = work_at(a, 0);
  if (!now.rows) return;
  if (group == 1) others_turn();

  int turn = 0, n = 0, tile = now.end - 1;
  float out[D / 2], scores[kKeys / 2], shrink[2];
  uint32_t shares[kKeys / 16][4];
  Rows rows{{-INFINITY, -INFINITY}, {0, 0}};

  // A row of `now` sees the keys from `low` to before `high`. If all 64 rows see all of a tile, it
  // needs no masks.
  int low[2], high[2], most_low, least_high;
  const auto look = [&] {
    const auto seen = [&](int row, int& from, int& to) {
      const int position = now.position + (row >> a.pack_shift);
      from = a.window ? position - a.window + 1 : 0;
      to = min(a.causal ? position + 1 : a.window ? position + a.window : now.keys, now.keys);
    };
    int unused;
    seen(first, low[0], high[0]), seen(first + 8, low[1], high[1]);
    seen(group * 64, unused, least_high), seen(group * 64 + 63, most_low, unused);
  };
  const auto hide = [&] {
    if (tile * kKeys >= most_low && (tile + 1) * kKeys <= least_high) return;
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int key = tile * kKeys + j * 8 + lane % 4 * 2 + i % 2;
        if (key < low[i / 2] || key >= high[i / 2]) scores[j * 4 + i] = -INFINITY;
      }
  };
  // Copies by threads need a fence before wgmma reads them.
  const auto await = [&](int kind, int of) {
    mbarrier_wait(s.full(kind, of), Shared<D>::parity(of));
    if (kPlace == Place::small_pages) fence_proxy_async_shared();
  };
  const auto make_scores = [&] {  // begins
    const uint32_t queries = s.q() + group * 64 * 128, keys = s.tile(0, n);
    wgmma_fence(scores);
#pragma unroll
    for (int i = 0; i < D / 16; ++i)
      wgmma<T, kKeys>(scores, wgmma_descriptor(queries + i / 4 * kBox) + i % 4 * 2, wgmma_descriptor(keys + i / 4 * kBox) + i % 4 * 2, i > 0);
    wgmma_commit();
  };
  // Rows behind the last key may hold anything, NaN too. Their weight is 0, so they have to be 0.
  const auto clear_values = [&](int of, int there) {
    for (int i = int(threadIdx.x) % 128; i < kKeys * 8 * Shared<D>::kBoxes; i += 128)
      if (i / 8 % kKeys >= there) store_shared(s.tile(1, of) + i * 16, make_uint4(0, 0, 0, 0));
    fence_proxy_async_shared();
    named_barrier_sync(3 + group, 128);
  };
  const auto add_values = [&](int of, int there, bool add) {  // begins
    await(1, of);
    if (kPlace != Place::small_pages && there < kKeys) clear_values(of, there);
    const uint64_t values = wgmma_descriptor_mn(s.tile(1, of), kBox);
    wgmma_fence(out, shares);
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) wgmma_rs<T, D>(out, shares[i], values + i * 128, add || i > 0);
    wgmma_commit();
  };
  const auto share = [&] {
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) shares[i][j] = pack2<T>(scores[i * 8 + j * 2], scores[i * 8 + j * 2 + 1]);
  };

  look();
  await(0, 0);
  mbarrier_wait(s.q_full(), 0);
  my_turn();
  make_scores();
  others_turn();
  wgmma_wait<0>(scores);
  release(s.empty(0, 0));
  if (tile == now.begin) release(s.q_empty());
  hide();
  online_softmax(scores, rows, a.scale, shrink);
  share();
  bool add = false;  // to the sums of this tile of rows
  for (;;) {
    const int there = now.keys - tile * kKeys, token = now.token, count = now.rows, unit = now.unit;
    const bool fresh = tile == now.begin;  // the next tile of keys belongs to another tile of rows
    if (fresh) {
      const Work next = work_at(a, turn + 1);  // the producer has read it before
      if (!next.rows) break;
      now = next, ++turn, tile = now.end;
      look();
    }
    --tile, ++n;
    await(0, n);
    if (fresh) mbarrier_wait(s.q_full(), uint32_t(turn) & 1);
    my_turn();
    make_scores();
    add_values(n - 1, there, add);
    others_turn();
    wgmma_wait<1>(scores);
    release(s.empty(0, n));
    if (tile == now.begin) release(s.q_empty());
    hide();
    const Rows done = rows;
    if (fresh) rows = {{-INFINITY, -INFINITY}, {0, 0}};
    online_softmax(scores, rows, a.scale, shrink);
    wgmma_wait_after(rows.sum[0] + rows.sum[1], out, shares);
    release(s.empty(1, n - 1));
    if (fresh) {
      write_rows<T, D>(out, done, a, first, token, count, unit);
    } else {
#pragma unroll
      for (int i = 0; i < D / 2; ++i) out[i] *= shrink[i / 2 % 2];
    }
    share();
    add = !fresh;
  }
  add_values(n, now.keys - tile * kKeys, add);
  wgmma_wait<0>(out);
  write_rows<T, D>(out, rows, a, first, now.token, now.rows, now.unit);
}

template <class T, int D, Place kPlace>
__global__ void __launch_bounds__(kThreads, 1)
    flash_attention3(const __grid_constant__ CUtensorMap q, const __grid_constant__ CUtensorMap k, const __grid_constant__ CUtensorMap v, const Arguments a) {
  constexpr bool kByThreads = kPlace == Place::small_pages;
  char* const unaligned = dynamic_shared();
  const Shared<D> s{shared_address(unaligned + (-shared_address(unaligned) & 1023U))};
  launch_dependents();
  if (threadIdx.x == 0) {
    prefetch_tensor_map(q);
    if (!kByThreads) prefetch_tensor_map(k), prefetch_tensor_map(v);
    mbarrier_init(s.q_full(), 1), mbarrier_init(s.q_empty(), 8);
    for (int n = 0; n < Shared<D>::kStages; ++n)
      for (int kind = 0; kind < 2; ++kind) mbarrier_init(s.full(kind, n), kByThreads ? 128 : 1), mbarrier_init(s.empty(kind, n), 8);
    fence_mbarrier_init();
  }
  __syncthreads();
  grid_dependency_wait();
  if (threadIdx.x < 128) {
    warpgroup_reg_dealloc<kPlace == Place::rows ? 40 : 56>();
    if constexpr (kByThreads) fetch_small_pages<T, D>(s, q, a);
    else if (kPlace == Place::pages && threadIdx.x < 32) fetch_pages<D>(s, q, k, v, a);
    else if (threadIdx.x == 0) fetch_rows<D>(s, q, k, v, a);
  } else {
    warpgroup_reg_alloc<kPlace == Place::rows ? 232 : 224>();
    attend_rows<T, D, kPlace>(s, a);
  }
}

}  // namespace tiles

}  // namespace fkc
