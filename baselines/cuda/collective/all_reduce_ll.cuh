// SPDX-License-Identifier: Apache-2.0
// Small sums, a word of 16 bytes of a thread: every rank sends all that it has to all others, in
// words that say themselves that they are there (ll_words.cuh). Who takes a word leaves zeros, and
// a warp counts its calls itself: so nobody waits for another warp of its rank, and all that a warp
// touches in a call lies together.
//
// There are two sets of boxes, which a warp uses in turn. One is written again by a kernel behind
// one that has heard from this rank, which sent that after its last kernel on this set had ended.
#pragma once
#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "ll_words.cuh"

namespace fkc {

struct Mail {
  static constexpr int kWarps = 4096;
  static constexpr int64_t kHead = kWarps * 4,
                           kBox = 32 * 16;  // the warps' numbers; of a rank, for a warp
  // Of a call at most. More than this is sent twice in less time than to everybody at once.
  static int64_t most(int ranks) { return kWarps * kBox / (ranks <= 4 ? 1 : 4); }
  static int64_t bytes(int ranks) {
    return kHead + 2 * kBox * kWarps * (ranks <= 2 ? 2 : ranks <= 4 ? 4 : kMostRanks);
  }
};

template <int kMost>
struct Mailboxes {
  char* mine;
  char* others[kMost - 1];  // from the next rank on
  int rank, size;
  explicit Mailboxes(const Ranks& ranks)
      : mine(ranks.at[ranks.rank]), others{}, rank(ranks.rank), size(ranks.size) {
    for (int k = 1; k < size; ++k) others[k - 1] = ranks.at[(rank + k) % size];
  }
};

// A part of a word, the last one, or one that is not aligned: so many bytes, of which only every
// two are.
__device__ inline void copy_pairs(void* to, const void* from, int64_t bytes) {
  for (int64_t b = 0; b < bytes; b += 2)
    memcpy(static_cast<char*>(to) + b, static_cast<const char*>(from) + b, 2);
}

// kWhole: words of x and out are aligned, and whole.
template <class T, int kMost, bool kWhole>
__global__ void __launch_bounds__(512)
    one_shot_all_reduce_ll(const char* x, char* out, int64_t bytes,
                       const __grid_constant__ Mailboxes<kMost> boxes, int op) {
  wait_for_inputs();
  const uint32_t word = blockIdx.x * blockDim.x + threadIdx.x, warp = word / 32;
  const int64_t first = int64_t(word) * 16, count = bytes - first < 16 ? bytes - first : 16;
  const bool there = count > 0;
  // On its way while it is found out where it goes.
  uint4 own{};
  if (there) {
    if constexpr (kWhole)
      own = *reinterpret_cast<const uint4*>(x + first);
    else
      copy_pairs(&own, x + first, count);
  }
  uint32_t* const calls = reinterpret_cast<uint32_t*>(boxes.mine) + warp;
  const uint32_t call = load_relaxed(calls);
  const uint32_t at = uint32_t(Mail::kHead) + (warp * 2 + call % 2) * uint32_t(kMost * Mail::kBox) +
                      threadIdx.x % 32 * 16;
  const auto box_of = [&](char* owner, int from) {
    return reinterpret_cast<uint4*>(owner + at + from * int(Mail::kBox));
  };
  own = sendable<T>(own);
  if (there) {
#pragma unroll
    for (int k = 0; k < kMost - 1; ++k)
      if (k + 1 < boxes.size) store_relaxed(box_of(boxes.others[k], boxes.rank), own);
  }
  __syncwarp();
  if (threadIdx.x % 32 == 0) *calls = call + 1;
  if (!there) return;
  uint4 all[kMost];
  const auto look = [&] {
    bool complete = true;
    if constexpr (kMost == 2) {  // one load: of two the order is nothing
      all[0] = all[1] = own;
      if (boxes.size == 2) all[1] = load_relaxed(box_of(boxes.mine, 1 - boxes.rank));
      return whole(all[1]);
    }
#pragma unroll
    for (int r = 0; r < kMost; ++r) {
      all[r] = own;
      if (r >= boxes.size || r == boxes.rank) continue;
      all[r] = load_relaxed(box_of(boxes.mine, r));
      complete = complete && whole(all[r]);
    }
    return complete;
  };
  for (Waiting waiting; !look();) waiting.turn();
  auto sum = Elements<T, uint4>::of(sent<T>(all[0]));
  const auto add_up = [&](int by) {
#pragma unroll
    for (int r = 1; r < kMost; ++r)
      if (r < boxes.size) sum.add(sent<T>(all[r]), by);
  };
  if (op == FK_SUM)
    add_up(FK_SUM);  // nothing to decide for each element
  else
    add_up(op);
  const uint4 packed = sum.word();
  if constexpr (kWhole)
    *reinterpret_cast<uint4*>(out + first) = packed;
  else
    copy_pairs(out + first, &packed, count);
#pragma unroll
  for (int r = 0; r < kMost; ++r)
    if (r < boxes.size && r != boxes.rank) *box_of(boxes.mine, r) = uint4{0, 0, 0, 0};
}

}  // namespace fkc
