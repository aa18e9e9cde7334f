// SPDX-License-Identifier: Apache-2.0
// ssd_chunk_scan on tensor cores, after arXiv:2405.21060, section 6. A block has some rows of a
// head's state for all tokens of a request, and takes the tokens in chunks. out = (decays o step o
// C B^T + d) X + decay C state^T, then state = decay state + (decay step X)^T B. Groups of warps
// take the chunks in turn. The addition of a chunk to the state does not depend on earlier chunks.
// So groups wait for each other only to read the state in shared memory and to write the next one.
// Level 1 allows no rounding of intermediate values to 16 bits, so factors are split
// (parts/split_bf16.cuh).
#pragma once
#include "../parts/barrier.cuh"
#include "../parts/cluster.cuh"
#include "../parts/cp_async.cuh"
#include "../parts/mma.cuh"
#include "../parts/op.cuh"
#include "../parts/split_bf16.cuh"
#include "chunk_parts.cuh"

namespace fkc {

// long: the steps of a chunk in their order, with the barriers between them. The products are methods
// of Chunked.
template <class T, class S, int kDS, int kChunk, int kWarps, int kGroups>
__global__ void __launch_bounds__(Chunked<T, kDS, kChunk, kWarps, kGroups>::kThreads, Chunked<T, kDS, kChunk, kWarps, kGroups>::kAtOnce)
    chunked_scan_mma(const Scan<T, S> s) {
  using K = Chunked<T, kDS, kChunk, kWarps, kGroups>;
  using Vectors = typename K::Vectors;
  using Xs = typename K::Xs;
  using Weights = typename K::Weights;
  constexpr int kBlocks = K::kBlocks, kTiles = K::kTiles;
  wait_for_inputs();
  const int request = int(blockIdx.x) / s.heads, head = int(blockIdx.x) % s.heads, slice = int(blockIdx.y) * K::kSlice;
  const int begin = s.starts[request], tokens = s.starts[request + 1] - begin, slot = s.slots[request];
  const bool has_state = s.has_state[request];
  if (tokens == 0) return;
  char* const shared = dynamic_shared();
  const uint32_t base = shared_address(shared);
  const int lane = int(threadIdx.x) % 32, group = __shfl_sync(0xffffffffu, int(threadIdx.x) / K::kOfGroup, 0), warp = int(threadIdx.x) / 32 % kWarps;
  const int group_at = group * K::kGroup;
  auto* const factors = reinterpret_cast<Factors<kChunk>*>(shared + K::kFactors) + 2 * group;
  // The barriers of a warp's state: from the previous group, and to the next one. The next group of
  // the last one is in the next block of the cluster.
  const int ranks = int(gridDim.z), rank = int(blockIdx.z), groups = ranks * kGroups;
  const bool from_block = ranks > 1 && group == 0, to_block = ranks > 1 && group == kGroups - 1, opens = rank == 0 && group == 0;
  const uint32_t there = base + K::kPassed + (group * kWarps + warp) * 8, behind = base + K::kPassed + ((group + 1) % kGroups * kWarps + warp) * 8;
  const int of_group = head / s.group;
  const auto fetch_b = [&](int first) { K::template fetch<Vectors>(base + group_at + K::kB, s.b + of_group * s.b_group, s.b_token, begin + first, begin + tokens); };
  const auto fetch_others = [&](int first) {
    K::template fetch<Vectors>(base + group_at + K::kC, s.c + of_group * s.c_group, s.c_token, begin + first, begin + tokens);
    K::template fetch<Xs>(base + group_at + K::kX, s.x + head * s.x_head + slice, s.x_token, begin + first, begin + tokens);
  };
  const int own = (rank * kGroups + group) * kChunk;  // the first token of the group's first chunk
  if (own < tokens) fetch_b(own), fetch_others(own);
  cp_async_commit();
  S* const rows = s.state + slot * s.slot + head * s.state_head + (slice + warp * 16) * s.state_row;
  if (opens && has_state) K::fetch_state(shared, rows, s.state_row);
  cp_async_commit();

  // One warp computes factors a chunk ahead, and reads their inputs two chunks ahead.
  const bool ahead = warp == kWarps - 1;
  static_assert(kChunk == 32);
  T dt = from_float<T>(0.F);
  const auto read_dt = [&](int first) {
    if (first + lane < tokens) dt = s.dt[(begin + first + lane) * s.dt_token + head * s.dt_head];
  };
  if (ahead) read_dt(own);
  const float d = s.d.of(head);
  const auto find = [&](int first, int turn) {
    const float of_lane[1] = {to_float(dt) + s.dt_bias.of(head)};
    factors[turn].find(s, of_lane, min(kChunk, tokens - first), s.a[head]);
    read_dt(first + groups * kChunk);
  };
  if (ahead && own < tokens) find(own, 0);
  // Every lane arrives for its own stores. From another block, bytes arrive.
  if (int(threadIdx.x) < kGroups * kWarps) mbarrier_init(base + K::kPassed + int(threadIdx.x) * 8, ranks > 1 && int(threadIdx.x) < kWarps ? 1 : 32), fence_mbarrier_init();
  if (ranks > 1) cluster_sync();
  else __syncthreads();

  const uint32_t at = base + group_at, b_at = at + K::kB + Vectors::of_lane(), c_at = at + K::kC + Vectors::of_lane(), x_at = at + K::kX, weights_at = at + K::kWeights + Weights::of_lane();
  for (int first = own, turn = 0; first < tokens; first += groups * kChunk, turn ^= 1) {
    const int next = first + groups * kChunk, count = min(kChunk, tokens - first), blocks = (count + 15) / 16;
    const bool carried = first > 0 || has_state, last = first + kChunk >= tokens;
    const Factors<kChunk>& f = factors[turn];
    if (from_block && first > 0 && lane == 0) mbarrier_arrive_expect_tx(there, K::kRowsBytes);
    if (first == 0) cp_async_wait<1>();
    else cp_async_wait<0>();
    named_barrier_sync(1 + group, K::kOfGroup);
    if (ahead && next < tokens) find(next, turn ^ 1);

    constexpr int kMost = (K::kSquares + kWarps - 1) / kWarps;
    if (warp + (kMost - 1) * kWarps < K::kSquares) K::template weigh<kMost>(shared, group_at, f, d, warp);
    else if constexpr (kMost > 1) K::template weigh<kMost - 1>(shared, group_at, f, d, warp);

    // The chunk's addition to the state.
    float state[kTiles][4] = {};
    K::add_chunk(state, f, x_at, b_at, blocks, warp);
    named_barrier_sync(1 + group, K::kOfGroup);  // weights are complete, and b is free
    if (next < tokens) fetch_b(next);
    cp_async_commit();

    // The old state takes the place of the addition in registers. The new state goes to the next
    // group.
    if (first > 0) mbarrier_wait(there, uint32_t(opens ? turn ^ 1 : turn));
    else cp_async_wait<1>(), __syncwarp();
    const float decay = f.all[0];
    float4* const own_state = reinterpret_cast<float4*>(shared + K::of_lane());
    const auto move_on = [&](auto put) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        const float4 before = carried ? own_state[t * 32] : make_float4(0, 0, 0, 0);
        put(t, make_float4(decay * before.x + state[t][0], decay * before.y + state[t][1], decay * before.z + state[t][2], decay * before.w + state[t][3]));
        state[t][0] = before.x, state[t][1] = before.y, state[t][2] = before.z, state[t][3] = before.w;
      }
    };
    if (last) {
      S* const to = rows + lane / 4 * s.state_row + lane % 4 * 2;
      move_on([&](int t, float4 v) { store_floats(to + t * 8, v.x, v.y), store_floats(to + 8 * s.state_row + t * 8, v.z, v.w); });
    } else if (to_block) {
      const int to = rank + 1 < ranks ? rank + 1 : 0;
      const uint32_t its = map_shared_rank(base + K::of_lane(), to), its_barrier = map_shared_rank(behind, to);
      move_on([&](int t, float4 v) { dsmem_store_async(its + t * 512, v, its_barrier); });
    } else {
      move_on([&](int t, float4 v) { own_state[t * 32] = v; });
      mbarrier_arrive(behind);
    }

    // C state^T.
    float out[kBlocks][2][4] = {}, less[kBlocks][2][4] = {};  // products of the first terms, and of the others
    if (carried) K::multiply_state(out, less, state, c_at);

    K::multiply_weights(out, less, f, weights_at, x_at, warp);
    if (next < tokens) {
      named_barrier_sync(1 + group, K::kOfGroup);
      fetch_others(next);
      cp_async_commit();
    }
    K::write_rows(out, less, s, begin + first, head, slice, count, warp);
  }
  if (ranks > 1) cluster_sync();  // other blocks may write here until then
}

}  // namespace fkc
