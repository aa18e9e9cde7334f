// SPDX-License-Identifier: Apache-2.0
// Sums of what fits into an inbox. Every rank sends all that it has to all others, in words that say themselves that
// they are there (ll_words.cuh). There are three inboxes. A call uses one and clears that of the call before it: nobody
// may use it again before this rank has begun the call after this one.
#pragma once
#include "../parts/peer.cuh"
#include "ll_words.cuh"

namespace fkc {

struct Inboxes {
  static constexpr int64_t kHead = 256;
  // Bytes of one rank in one inbox. More than this is sent twice in less time than to everybody at once.
  __host__ __device__ static int64_t slot(int ranks) { return int64_t{1} << (ranks <= 4 ? 21 : 19); }
  static int64_t bytes(int ranks) { return kHead + 3 * ranks * slot(ranks); }
};

// At the head of a rank's own buffer.
struct InboxState {
  uint32_t call;      // which inbox is next: 0, 1, 2
  uint32_t words[3];  // of 16 bytes, that the last call on each inbox had
  uint32_t readers;   // blocks that have read what is above, in one load
};

__device__ inline uint4* inbox(const Ranks& ranks, int owner, uint32_t number, int from) {
  return reinterpret_cast<uint4*>(ranks.at[owner] + Inboxes::kHead + (int64_t(number) * ranks.size + from) * Inboxes::slot(ranks.size));
}

// What a kernel of one call does with the inboxes, for at most kMost ranks; all threads of all its blocks make it, and
// call leave() once, together with their block, after they have sent and cleared.
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
  // Of `thread` among `threads`.
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
  // The sum of all ranks' words, in their order; `own` is this rank's as it was sent.
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
