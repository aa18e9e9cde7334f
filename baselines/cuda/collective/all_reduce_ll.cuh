// SPDX-License-Identifier: Apache-2.0
// One-shot all_reduce of small tensors, as in the LL protocol of NCCL. Every rank sends all its
// words to all other ranks, a word of 16 bytes for each thread. The words carry their own flags
// (ll_words.cuh). The receiver of a word leaves zeros, and each warp counts its own calls. So no
// warp waits for another warp of its rank, and a warp's memory of a call is contiguous.
//
// There are two sets of boxes, which a warp uses in turn. A kernel writes to a set again only after
// a kernel which has heard from this rank. This rank sent that message after its last kernel on the
// set had ended.
#pragma once
#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "ll_words.cuh"

namespace fkc {

struct Mail {
  static constexpr int kWarps = 4096;
  static constexpr int64_t kHead = kWarps * 4,
                           kBox = 32 * 16;  // call numbers of warps; bytes of a rank for a warp
  // The most bytes of a call. Above it, reducing parts and sending the sums (two-shot) is faster.
  static int64_t most(int ranks) { return kWarps * kBox / (ranks <= 4 ? 1 : 4); }
  static int64_t bytes(int ranks) {
    return kHead + 2 * kBox * kWarps * (ranks <= 2 ? 2 : ranks <= 4 ? 4 : kMostRanks);
  }
};

template <int kMost>
struct Mailboxes {
  char* mine;
  char* others[kMost - 1];  // begins with the next rank
  int rank, size;
  explicit Mailboxes(const Ranks& ranks)
      : mine(ranks.at[ranks.rank]), others{}, rank(ranks.rank), size(ranks.size) {
    for (int k = 1; k < size; ++k) others[k - 1] = ranks.at[(rank + k) % size];
  }
};

// Copies a part of a word: the last word, or a word which is aligned to two bytes only.
__device__ inline void copy_pairs(void* to, const void* from, int64_t bytes) {
  for (int64_t b = 0; b < bytes; b += 2)
    memcpy(static_cast<char*>(to) + b, static_cast<const char*>(from) + b, 2);
}

// kWhole: all words of x and out are whole and aligned.
template <class T, int kMost, bool kWhole>
__global__ void __launch_bounds__(512)
    one_shot_all_reduce_ll(const char* x, char* out, int64_t bytes,
                       const __grid_constant__ Mailboxes<kMost> boxes, int op) {
  wait_for_inputs();
  const uint32_t word = blockIdx.x * blockDim.x + threadIdx.x, warp = word / 32;
  const int64_t first = int64_t(word) * 16, count = bytes - first < 16 ? bytes - first : 16;
  const bool there = count > 0;
  // The load is in flight while the addresses are computed.
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
    if constexpr (kMost == 2) {  // one load: the order of two terms does not matter
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
    add_up(FK_SUM);  // without a decision for each element
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
