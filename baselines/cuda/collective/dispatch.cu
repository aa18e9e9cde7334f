// SPDX-License-Identifier: Apache-2.0
// moe_dispatch: every token goes once to each rank with one of its experts, into a box of its own.
// The receiver copies it to the rows of all its experts, and reads it once. It takes its own tokens
// straight from x. There is one launch, and all its blocks run at once.
//
// With few tokens, every block sends some and then finds the places of some (dispatch_few.cuh).
// With many, all blocks send choices first, as these would arrive late behind rows. Blocks of some
// multiprocessors then send rows. The others sort the arriving choices, a block for each expert,
// and copy rows to their places as they arrive. Stores to another device wait in a multiprocessor's
// queue and delay its other work.
//
// There is no deadlock: sending waits for nothing of this call.
#include "../parts/op.cuh"
#include "../parts/peer.cuh"
#include "choices.cuh"
#include "dispatch_few.cuh"
#include "fk/ops/moe_dispatch.h"
#include "staged.cuh"

namespace {
using namespace fkc;
using namespace fkc::experts;

constexpr int kInFlight = 8;  // loads of a thread

// Sends a group of tokens to the other ranks, with a flag.
template <class Word>
__device__ void send_group(const Tokens<Word>& tokens, int group, const Shape& s,
                           const Ranks& ranks, uint32_t call) {
  constexpr int kAtOnce = 4;
  const int me = ranks.rank;
  for (int t = group * s.group; t < min(tokens.count, (group + 1) * s.group); ++t) {
    const Word* row = tokens.x + int64_t(t) * s.words;
    unsigned wanted = 0;
    for (int i = int(threadIdx.x); i < s.words; i += kThreads * kAtOnce) {
      Word words[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        if (i + k * kThreads < s.words) words[k] = __ldcg(row + i + k * kThreads);
      // The first loads of words are in flight by now.
      if (i == int(threadIdx.x)) wanted = ranks_of_token(s, tokens.topk_ids + t * s.top_k);
      for (int j = 1; j < ranks.size; ++j) {
        const int r = me + j < ranks.size ? me + j : me + j - ranks.size;
        if (!(wanted >> r & 1)) continue;
        Word* box = box_of<Word>(ranks, s, r, me, t);
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k)
          if (i + k * kThreads < s.words) box[i + k * kThreads] = words[k];
      }
    }
  }
  __syncthreads();
  const int r = int(threadIdx.x);
  if (r >= ranks.size || r == me) return;
  store_release(arrived(ranks, r, me, group), call);
}

// The rows of a group's tokens on this rank: their numbers, and their places.
struct Places {
  int count[kGroup], at[kGroup][kChosenMost];
};

template <class Word>
__device__ void place_rows(const Tokens<Word>& tokens, const Places& places, int from, int first,
                           int end, const Shape& s, const Ranks& ranks) {
  const int me = ranks.rank, total = (end - first) * s.words;
  for (int base = int(threadIdx.x); base < total; base += kThreads * kInFlight) {
    Word words[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int at = base + k * kThreads, t = at / s.words;
      if (at >= total || places.count[t] == 0) continue;
      const Word* row = from == me ? tokens.x + int64_t(first + t) * s.words
                                   : box_of<Word>(ranks, s, me, from, first + t);
      words[k] = __ldcg(row + at % s.words);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int at = base + k * kThreads, t = at / s.words;
      if (at >= total) continue;
      for (int p = 0; p < places.count[t]; ++p)
        tokens.rows[int64_t(places.at[t][p]) * s.words + at % s.words] = words[k];
    }
  }
}

// Pieces of work for blocks, which ask for the next piece ahead.
class Pieces {
 public:
  __device__ explicit Pieces(uint32_t* given) : given_(given) { ask(); }
  // By all threads of the block.
  __device__ int next() {
    __shared__ uint32_t piece;
    __syncthreads();
    if (threadIdx.x == 0) piece = ahead_;
    __syncthreads();
    const uint32_t mine = piece;
    ask();
    return int(mine);
  }

 private:
  __device__ void ask() {
    if (threadIdx.x == 0) ahead_ = atomicAdd(given_, 1u);
  }
  uint32_t* given_;
  uint32_t ahead_ = 0;
};

// Takes groups as they arrive.
template <class Word>
__device__ void take_groups(const Tokens<Word>& tokens, const Choices& choices, Pieces pieces,
                            const Shape& s, const Ranks& ranks, uint32_t call) {
  __shared__ Places places;
  const int me = ranks.rank, warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  const int jobs = (s.most + kGroup - 1) / kGroup * ranks.size;
  for (int job = pieces.next(); job < jobs; job = pieces.next()) {
    const int group = job / ranks.size, from = (me + job % ranks.size) % ranks.size,
              first = group * kGroup;
    const int end = min(choices.tokens.of(from), first + kGroup);
    if (first >= end) continue;
    if (warp < end - first) {
      const int choice = (first + warp) * s.top_k + lane;
      int place = -1;
      if (lane < s.top_k && choices.local(__ldcg(table_of(ranks, s, me, from) + choice)) >= 0)
        place = __ldcg(places_of(ranks, s, from) + choice);
      const unsigned here = __ballot_sync(kAll, place >= 0);
      if (place >= 0) places.at[warp][__popc(here & ((1u << lane) - 1))] = place;
      if (lane == 0) places.count[warp] = __popc(here);
    } else if (int(threadIdx.x) == kThreads - 1 && from != me) {
      wait_until(arrived(ranks, me, from, group), call);
    }
    __syncthreads();
    place_rows(tokens, places, from, first, end, s, ranks);
  }
}

// Some multiprocessors send. There is a block of each kind, whatever the numbers of the
// multiprocessors are.
constexpr unsigned kSendersEvery = 4;
__device__ inline bool is_sender() {
  return blockIdx.x == 0 || (blockIdx.x > 1 && sm_id() % kSendersEvery == 0);
}

template <class Word>
__global__ void __launch_bounds__(kThreads, 3)
    dispatch_many(const Tokens<Word> tokens, Sorted to, Shape s,
                  const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  State* mine = state_of(ranks, ranks.rank);
  const uint32_t call = next_call(ranks);
  wait_for_all(ranks, mine->taken, call - 1);
  push_table(tokens.topk_ids, tokens.count, int(blockIdx.x), int(gridDim.x), s, ranks);
  if (last_to_come(&mine->pushed, call * gridDim.x)) tell_all(ranks, &State::sent, call);
  if (is_sender()) {
    Pieces groups(&mine->pieces[0]);
    for (int group = groups.next(); group * kGroup < tokens.count; group = groups.next())
      send_group(tokens, group, s, ranks, call);
  } else {
    wait_for_all(ranks, mine->sent, call);
    const Choices choices(s, ranks);
    Pieces experts(&mine->pieces[1]);
    for (int expert = experts.next(); expert < s.local; expert = experts.next()) {
      sort_segment(to, choices, expert);
      arrive(&mine->sorted);
    }
    if (threadIdx.x == 0) wait_until(&mine->sorted, call * unsigned(s.local));
    take_groups(tokens, choices, Pieces(&mine->pieces[2]), s, ranks, call);
  }
  end_call(ranks, call);
  if (!last_block(&mine->blocks[1])) return;
  if (threadIdx.x < 3) mine->pieces[threadIdx.x] = 0;
  tell_all(ranks, &State::taken, call);
}

struct MoeDispatch : Exchanging<fk::moe_dispatch> {
  using Exchanging::Exchanging;
  void prepare(const op::forward& max, const fk_memory&) {
    const int64_t element = max.x->dtype.bits / 8;
    share(element, init.hidden_size * element, init.max_tokens_per_rank <= kFew);
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const int64_t element = a.x->dtype.bits / 8, row = init.hidden_size * element;
    const auto go = [&](auto type) {
      using Word = decltype(type);
      const Shape s = exchange->shape(init, int(sizeof(Word)));
      const Tokens<Word> tokens{fk::data<Word>(a.x), fk::data<int32_t>(a.topk_ids),
                                int(a.x->shape[0]), fk::data<Word>(a.recv_x)};
      const Sorted to{fk::data<int32_t>(a.recv_source),
                      fk::data<int32_t>(a.expert_offsets),
                      fk::data<int32_t>(a.row_ids),
                      fk::data<int32_t>(a.recv_count),
                      nullptr,
                      1,
                      0};
      if constexpr (!std::is_same_v<Word, Loose>)
        if (s.group > 1)
          return launch(dispatch_many<Word>, unsigned(3 * processors), kThreads, 0, ctx, tokens, to,
                        s, exchange->ranks());
      launch(dispatch_few<Word>, unsigned(2 * processors), kThreads, 0, ctx, tokens, to, s,
             exchange->ranks());
    };
    if (init.max_tokens_per_rank <= kFew)
      with_flagged_words(element, row, a.x->data, a.recv_x->data, go);
    else if (word_bytes({address(a.x->data), address(a.recv_x->data), row}) == 16)
      go(uint4{});
    else if (element == 4)
      go(0u);
    else
      go(static_cast<unsigned short>(0));
  }
};
FK_OP(moe_dispatch, MoeDispatch);

}  // namespace
