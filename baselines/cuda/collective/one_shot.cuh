// SPDX-License-Identifier: Apache-2.0
// One-shot sums, of tensors which fit into an inbox. Every rank sends all its words to all others.
// The words carry their own flags (ll_words.cuh). There are three inboxes. A call uses one, and
// clears the one of the previous call. No rank uses that one again before this rank has begun the
// next call.
#pragma once
#include "../parts/peer.cuh"
#include "ll_words.cuh"

namespace fkc {

struct Inboxes {
  static constexpr int64_t kHead = 256;
  // Bytes of one rank in one inbox. Above it, reducing parts and sending the sums (two-shot) is
  // faster.
  __host__ __device__ static int64_t slot(int ranks) { return int64_t{1} << (ranks <= 4 ? 21 : 19); }
  static int64_t bytes(int ranks) { return kHead + 3 * ranks * slot(ranks); }
};

// At the head of a rank's own buffer.
struct InboxState {
  uint32_t call;      // the next inbox: 0, 1 or 2
  uint32_t words[3];  // words of 16 bytes of the last call on each inbox
  uint32_t readers;   // blocks which have read the words above, in one load
};

__device__ inline uint4* inbox(const Ranks& ranks, int owner, uint32_t number, int from) {
  return reinterpret_cast<uint4*>(ranks.at[owner] + Inboxes::kHead + (int64_t(number) * ranks.size + from) * Inboxes::slot(ranks.size));
}

// A kernel's use of the inboxes in one call, for at most kMost ranks. All threads of all its blocks
// construct it. Each block calls leave() once, after its threads have sent and cleared.
template <int kMost> class Call {
 public:
  __device__ explicit Call(const Ranks& ranks) : ranks_(ranks), state_(reinterpret_cast<InboxState*>(ranks.at[ranks.rank])) {
    const uint4 state = load_relaxed(reinterpret_cast<const uint4*>(state_));
    now_ = state.x;
    old_ = (now_ + 2) % 3;
    old_words_ = old_ == 0 ? state.y : old_ == 1 ? state.z : state.w;
  }
  __device__ void send(int64_t word, uint4 v) const {
#pragma unroll
    for (int k = 1; k < kMost; ++k) {
      if (k >= ranks_.size) continue;
      const int to = ranks_.rank + k < ranks_.size ? ranks_.rank + k : ranks_.rank + k - ranks_.size;
      store_relaxed(inbox(ranks_, to, now_, ranks_.rank) + word, v);
    }
  }
  // Clears the words of `thread` among `threads`.
  __device__ void clear(int64_t thread, int64_t threads) const {
    for (int r = 0; r < ranks_.size; ++r) {
      if (r == ranks_.rank) continue;
      uint4* at = inbox(ranks_, ranks_.rank, old_, r);
      for (int64_t i = thread; i < old_words_; i += threads) at[i] = uint4{0, 0, 0, 0};
    }
  }
  // The last block to read the state changes it.
  __device__ void leave(uint32_t words) const {
    __syncthreads();
    if (threadIdx.x != 0 || atomicAdd(&state_->readers, 1u) + 1 != gridDim.x) return;
    state_->readers = 0;
    state_->words[now_] = words;
    state_->call = (now_ + 1) % 3;
  }
  // The sum of all ranks' words, in the order of ranks. `own`: this rank's word as it was sent.
  template <class T> __device__ Elements<T, uint4> sum(int64_t word, uint4 own, int op) const {
    uint4 all[kMost];
    Waiting waiting;
    for (;;) {
      bool complete = true;
#pragma unroll
      for (int r = 0; r < kMost; ++r) {
        if (r >= ranks_.size) continue;
        all[r] = r == ranks_.rank ? own : load_relaxed(inbox(ranks_, ranks_.rank, now_, r) + word);
        complete = complete && whole(all[r]);
      }
      if (complete) break;
      waiting.turn();
    }
    auto sum = Elements<T, uint4>::of(sent<T>(all[0]));
#pragma unroll
    for (int r = 1; r < kMost; ++r)
      if (r < ranks_.size) sum.add(sent<T>(all[r]), op);
    return sum;
  }

 private:
  const Ranks& ranks_;
  InboxState* state_;
  uint32_t now_, old_, old_words_;
};

}  // namespace fkc
