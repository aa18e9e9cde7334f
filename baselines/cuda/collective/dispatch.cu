// SPDX-License-Identifier: Apache-2.0
// moe_dispatch: every token goes once to each rank that has one of its experts, into a box of its
// own there; who receives puts it into the rows of all of its experts, read once, and its own
// tokens straight from x. One launch, whose blocks all run at once.
//
// Of few tokens, every block sends some and then finds the places of some, by counting the choices
// that come before theirs. Of many, a third of the blocks send; the others send the choices, sort
// those that come, a block for each expert, and put rows to their places as they come.
//
// Nobody waits in a circle: sending waits for nothing that is sent in this call.
#include "carried.cuh"
#include "fk/ops/moe_dispatch.h"
#include "in_steps.cuh"

namespace {
using namespace fkc;
using namespace fkc::experts;

constexpr int kInFlight = 8;  // words of a thread

template <class Word>
struct Tokens {
  const Word* x;
  const int32_t* topk_ids;
  int count;
  Word* rows;  // where they go to
};

// A group of tokens to the other ranks, with a flag.
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
      // Not before the first words are on their way, too.
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
  __threadfence_system();
  store_release(arrived(ranks, r, me, group), call);
}

// Of a group's tokens: how many rows each has here, and which. Of few tokens these are what is
// counted, one more for an offset.
struct Places {
  int count[kGroup], at[kGroup][kChosenMost + 1];
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

// How many choices stand before those that are asked for: of experts below theirs, or of theirs and
// earlier.
struct Questions {
  int count, expert[kChosenMost + 1], at[kChosenMost + 1], choice[kChosenMost];
};
constexpr int kChunks = 4;  // of choices, that a warp reads at once

__device__ inline void load_chunks(Choices::Four (&four)[kChunks], const Choices& choices,
                                   int first) {
#pragma unroll
  for (int c = 0; c < kChunks; ++c)
    four[c] = choices.load(first + c * kWarps + int(threadIdx.x) / 32);
}
__device__ inline void count_before(const Choices::Four (&four)[kChunks], const Questions& asked,
                                    int (&counts)[kChosenMost + 1], int stride) {
  for (int q = 0; q < asked.count; ++q) {
    const int expert = asked.expert[q], place = asked.at[q];
    int before = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int of = four[c].expert[j];
        before += unsigned(of) < unsigned(expert) ||
                  (of == expert && four[c].from * stride + four[c].at + j < place);
      }
    before = __reduce_add_sync(kAll, before);
    if (threadIdx.x % 32 == 0 && before) atomicAdd(counts + q, before);
  }
}

// A token's rows to their places; `from` is none where this block has only an offset to find, and
// `expert` where it has none.
template <class Word>
__device__ void take_token(const Tokens<Word>& tokens, const Sorted& to, const Choices& choices,
                           int from, int t, int expert, const Shape& s, const Ranks& ranks,
                           uint32_t call) {
  __shared__ Questions asked;
  __shared__ Places places;
  const int thread = int(threadIdx.x);
  Choices::Four four[kChunks];
  load_chunks(four, choices, 0);
  __syncthreads();  // what is asked for the token before is known to all
  if (thread < 32) {
    const int of =
        from >= 0 && thread < s.top_k
            ? choices.local(__ldcg(table_of(ranks, s, ranks.rank, from) + t * s.top_k + thread))
            : -1;
    const unsigned here = __ballot_sync(kAll, of >= 0);
    const int q = __popc(here & ((1u << thread) - 1)), count = __popc(here);
    places.at[0][thread] = 0;
    if (of >= 0) {
      asked.expert[q] = of;
      asked.at[q] = from * s.stride + t * s.top_k + thread;
      asked.choice[q] = thread;
    }
    if (thread == 0) {
      places.count[0] = count;
      places.at[0][kChosenMost] = 0;
      asked.expert[count] = expert;
      asked.at[count] = 0;
      asked.count = count + (expert <= s.local);
    }
  }
  __syncthreads();
  for (int first = 0;;) {
    count_before(four, asked, places.at[0], s.stride);
    first += kChunks * kWarps;
    if (first >= choices.chunks.all) break;
    load_chunks(four, choices, first);
  }
  const int count = places.count[0];
  if (from != ranks.rank && count && thread == 0)
    wait_until(arrived(ranks, ranks.rank, from, t), call);
  __syncthreads();
  if (thread < count) {
    const int place = places.at[0][thread];
    to.source[place] = (from * s.most + t) * s.top_k + asked.choice[thread];
    to.row_ids[place] = place;
  }
  if (thread == 0 && expert <= s.local) {
    to.offsets[expert] = places.at[0][count];
    if (expert == s.local) *to.count = places.at[0][count];
  }
  if (count) place_rows(tokens, places, from, t, t + 1, s, ranks);
}

template <class Word>
__global__ void __launch_bounds__(kThreads, 2)
    dispatch_few(const Tokens<Word> tokens, Sorted to, Shape s,
                 const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  const uint32_t call = next_call(ranks);
  const int block = int(blockIdx.x), blocks = int(gridDim.x);
  s.turn_to(call);
  if (block + 1 == blocks) {
    push_table(tokens.topk_ids, tokens.count, 0, 1, s, ranks);
    __syncthreads();
    tell_all(ranks, &State::sent, call);
  }
  for (int t = block; t < tokens.count; t += blocks) send_group(tokens, t, s, ranks, call);
  wait_for_all(ranks, state_of(ranks, ranks.rank)->sent, call);
  const Choices choices(s, ranks);
  // This rank's own tokens first, and beside them the offsets of experts.
  for (int i = block; i < choices.tokens.all || i <= s.local; i += blocks) {
    int from = -1, t = 0;
    if (i < choices.tokens.all)
      from = choices.tokens.find((i + choices.tokens.before(ranks.rank)) % choices.tokens.all, t);
    take_token(tokens, to, choices, from, t, i, s, ranks, call);
  }
  end_call(ranks, call);
}

// Group by group as they come.
template <class Word>
__device__ void take_groups(const Tokens<Word>& tokens, const Choices& choices, int taker,
                            int takers, const Shape& s, const Ranks& ranks, uint32_t call) {
  __shared__ Places places;
  const int me = ranks.rank, warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;
  for (int job = taker; job < (s.most + kGroup - 1) / kGroup * ranks.size; job += takers) {
    const int group = job / ranks.size, from = (me + job % ranks.size) % ranks.size,
              first = group * kGroup;
    const int end = min(choices.tokens.of(from), first + kGroup);
    if (first >= end) continue;
    __syncthreads();
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

// Whole words of 16 bytes are copied by the copy engine, others by threads.
template <class Word>
inline constexpr bool kByEngine = sizeof(Word) == 16;

template <class Word>
__global__ void __launch_bounds__(kThreads, 3)
    dispatch_many(const Tokens<Word> tokens, Sorted to, int senders, Shape s,
                  const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  State* mine = state_of(ranks, ranks.rank);
  const uint32_t call = next_call(ranks);
  wait_for_all(ranks, mine->taken, call - 1);
  const int taker = int(blockIdx.x) - senders, takers = int(gridDim.x) - senders;
  const int warp = int(threadIdx.x) / 32;
  const Carried carried{reinterpret_cast<const char*>(tokens.x), tokens.topk_ids, tokens.count,
                        reinterpret_cast<char*>(tokens.rows), s.row_bytes};
  if constexpr (kByEngine<Word>) {
    if (threadIdx.x == 0) Slots(s.row_bytes).init();
    __syncthreads();
  }
  if (taker < 0 && kByEngine<Word>) {
    if (warp == 0) fetch_own(carried, int(blockIdx.x), senders, s, ranks);
    if (warp == 1) send_own(carried, int(blockIdx.x), senders, s, ranks, call);
  } else if (taker < 0) {
    for (int group = int(blockIdx.x); group * kGroup < tokens.count; group += senders)
      send_group(tokens, group, s, ranks, call);
  } else {
    push_table(tokens.topk_ids, tokens.count, taker, takers, s, ranks);
    if (last_to_come(&mine->pushed, call * unsigned(takers))) tell_all(ranks, &State::sent, call);
    wait_for_all(ranks, mine->sent, call);
    const Choices choices(s, ranks);
    if constexpr (kByEngine<Word>) {
      Kept& kept = *reinterpret_cast<Kept*>(dynamic_shared() + Slots::kBarriers);
      for (int expert = taker; expert < s.local; expert += takers)
        sort_segment(to, choices, expert, kept);
      fence_async_shared();  // rows follow where threads wrote
      meet(&mine->sorted, call * unsigned(takers));
      if (warp == 0) fetch_come(carried, choices, taker, takers, call);
      if (warp == 1) put_come(carried, choices, taker, takers);
    } else {
      __shared__ Kept kept;
      for (int expert = taker; expert < s.local; expert += takers)
        sort_segment(to, choices, expert, kept);
      meet(&mine->sorted, call * unsigned(takers));
      take_groups(tokens, choices, taker, takers, s, ranks, call);
    }
  }
  end_call(ranks, call);
  if (last_block(&mine->blocks[1])) tell_all(ranks, &State::taken, call);
}

struct MoeDispatch : Exchanging<fk::moe_dispatch> {
  using Exchanging::Exchanging;
  void prepare(const op::forward& max, const fk_memory&) {
    const int64_t element = max.x->dtype.bits / 8;
    share(element, element, init.max_tokens_per_rank <= kFew);
    check(cudaFuncSetAttribute(dispatch_many<uint4>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               Slots::kShared),
          "shared memory");
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
      if (s.group == 1)
        launch(dispatch_few<Word>, unsigned(2 * processors), kThreads, 0, ctx, tokens, to, s,
               exchange->ranks());
      else
        launch(dispatch_many<Word>, unsigned(3 * processors), kThreads,
               size_t(kByEngine<Word> ? Slots::kShared : 0), ctx, tokens, to, processors, s,
               exchange->ranks());
    };
    if (word_bytes({address(a.x->data), address(a.recv_x->data), row}) == 16)
      go(uint4{});
    else if (element == 4)
      go(0u);
    else
      go(static_cast<unsigned short>(0));
  }
};
FK_OP(moe_dispatch, MoeDispatch);

}  // namespace
