// SPDX-License-Identifier: Apache-2.0
// moe_dispatch of few tokens. Rows and choices carry their own flags (ll_exchange.cuh), so the
// kernel waits for nothing else. There is no sort: a block counts the choices before those of its
// token, while the token's row is in flight.
#pragma once
#include "../parts/op.cuh"
#include "choices.cuh"
#include "ll_exchange.cuh"
#include "loose.cuh"

namespace fkc::experts {

template <class Word>
struct Tokens {
  const Word* x;
  const int32_t* topk_ids;
  int count;
  Word* rows;  // their destination
};

// Sends a token to the other ranks with one of its experts.
template <class Word>
__device__ void send_token(const Tokens<Word>& tokens, int t, const Shape& s, const Ranks& ranks) {
  constexpr int kAtOnce = 4;
  const int me = ranks.rank, lane = int(threadIdx.x) % 32;
  const Word* row = tokens.x + int64_t(t) * s.words;
  unsigned wanted = 0;
  for (int base = 0; base < s.words; base += kThreads * kAtOnce) {
    Held<Word> words[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = base + k * kThreads + int(threadIdx.x);
      if (i < s.words) words[k] = load_word(row + i);
    }
    // The first loads of words are in flight by now.
    if (base == 0) {
      const int of = lane < s.top_k ? __ldcg(tokens.topk_ids + t * s.top_k + lane) : -1;
      const int rank = unsigned(of) < unsigned(s.experts) ? s.rank_of(of) : -1;
      for (int r = 0; r < ranks.size; ++r)
        wanted |= unsigned(__ballot_sync(kAll, rank == r) != 0) << r;
    }
    for (int j = 1; j < ranks.size; ++j) {
      const int r = me + j < ranks.size ? me + j : me + j - ranks.size;
      if (!(wanted >> r & 1)) continue;
      Held<Word>* box = box_of<Held<Word>>(ranks, s, r, me, t);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        const int i = base + k * kThreads + int(threadIdx.x);
        if (i < s.words) send_word(box + i, words[k]);
      }
    }
  }
}

// Questions: how many choices stand before a choice, of lower experts, or of the same expert and
// earlier? The last question may be an expert's offset.
struct Questions {
  int count, all, expert[kChosenMost + 1], at[kChosenMost + 1], choice[kChosenMost],
      before[kChosenMost + 1];
};
constexpr int kChunks = 4;  // chunks of choices which a warp reads at once

__device__ inline void count_before(const Choices& choices, int first, Questions& asked) {
  const int stride = choices.s.stride;
  Choices::Four four[kChunks];
  uint4* at[kChunks];
  uint4 came[kChunks]{};
#pragma unroll
  for (int c = 0; c < kChunks; ++c)
    at[c] = reinterpret_cast<uint4*>(
        choices.place(first + c * kWarps + int(threadIdx.x) / 32, four[c]));
  await_words(came, [&](int c) { return at[c]; });
#pragma unroll
  for (int c = 0; c < kChunks; ++c)
    choices.name(four[c], {int(came[c].x), int(came[c].y), int(came[c].z), int(came[c].w)});
  for (int q = 0; q < asked.all; ++q) {
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
    if (threadIdx.x % 32 == 0 && before) atomicAdd(asked.before + q, before);
  }
}

// By a warp: asks for the local experts of a token's choices, and for the offset of `expert` unless
// it is beyond all.
__device__ inline void ask(Questions& asked, const Choices& choices, int from, int t, int expert) {
  const Shape& s = choices.s;
  const int lane = int(threadIdx.x) % 32;
  uint32_t came[1]{};
  const bool chosen = from >= 0 && lane < s.top_k;
  await_words(came, [&](int) {
    return chosen ? reinterpret_cast<uint32_t*>(
                        table_of(choices.ranks, s, choices.ranks.rank, from) + t * s.top_k + lane)
                  : static_cast<uint32_t*>(nullptr);
  });
  const int of = chosen ? choices.local(int(came[0])) : -1;
  const unsigned here = __ballot_sync(kAll, of >= 0);
  const int q = __popc(here & ((1u << lane) - 1)), count = __popc(here);
  asked.before[lane] = 0;
  if (of >= 0) {
    asked.expert[q] = of;
    asked.at[q] = from * s.stride + t * s.top_k + lane;
    asked.choice[q] = lane;
  }
  if (lane == 0) {
    asked.before[kChosenMost] = 0;
    asked.expert[count] = expert;
    asked.at[count] = 0;
    asked.count = count;
    asked.all = count + (expert <= s.local);
  }
}

// Copies a token's row to its places.
template <class Word>
__device__ void put_row(const Tokens<Word>& tokens, const Questions& asked, int from, int t,
                        const Shape& s, const Ranks& ranks) {
  constexpr int kAtOnce = 4;
  const int count = asked.count;
  for (int base = int(threadIdx.x); base < s.words; base += kThreads * kAtOnce) {
    Held<Word> words[kAtOnce];
    if (from == ranks.rank) {
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        if (base + k * kThreads < s.words)
          words[k] = load_word(tokens.x + int64_t(t) * s.words + base + k * kThreads);
    } else {
      Held<Word>* box = box_of<Held<Word>>(ranks, s, ranks.rank, from, t) + base;
      take_words(words, [&](int k) {
        return base + k * kThreads < s.words ? box + k * kThreads : nullptr;
      });
    }
    for (int p = 0; p < count; ++p) {
      Word* to = tokens.rows + int64_t(asked.before[p]) * s.words + base;
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k)
        if (base + k * kThreads < s.words) store_word(to + k * kThreads, words[k]);
    }
  }
}

// Copies a token's rows to their places. `from` is -1 if this block has only an offset to find.
// `expert` is beyond all experts if the block has no offset to find.
template <class Word>
__device__ void take_token(const Tokens<Word>& tokens, const Sorted& to, const Choices& choices,
                           int from, int t, int expert, const Shape& s, const Ranks& ranks) {
  __shared__ Questions asked;
  const int thread = int(threadIdx.x);
  __syncthreads();  // all threads have read the answers for the previous token
  if (thread < 32) ask(asked, choices, from, t, expert);
  __syncthreads();
  for (int first = 0; first < choices.chunks.all; first += kChunks * kWarps)
    count_before(choices, first, asked);
  __syncthreads();
  const int count = asked.count;
  if (thread < count) {
    const int place = asked.before[thread];
    to.source[place] = (from * s.most + t) * s.top_k + asked.choice[thread];
    to.row_ids[place] = place;
  }
  if (thread == 0 && expert <= s.local) {
    to.offsets[expert] = asked.before[count];
    if (expert == s.local) *to.count = asked.before[count];
  }
  if (count) put_row(tokens, asked, from, t, s, ranks);
}

template <class Word>
__global__ void __launch_bounds__(kThreads, 2)
    dispatch_few(const Tokens<Word> tokens, Sorted to, Shape s,
                 const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  const uint32_t call = next_call(ranks);
  const int block = int(blockIdx.x), blocks = int(gridDim.x);
  Shape before;
  turn_unflagged(s, before, call);
  if (block + 1 == blocks) send_table(tokens.topk_ids, tokens.count, s, ranks);
  for (int t = block; t < tokens.count; t += blocks) send_token(tokens, t, s, ranks);
  clear_tables(before, ranks);
  const Choices choices(s, ranks, hear_tokens(s, ranks));
  // This rank's own tokens first, and with them the offsets of experts.
  for (int i = block; i < choices.tokens.all || i <= s.local; i += blocks) {
    int from = -1, t = 0;
    if (i < choices.tokens.all)
      from = choices.tokens.find((i + choices.tokens.before(ranks.rank)) % choices.tokens.all, t);
    take_token(tokens, to, choices, from, t, i, s, ranks);
  }
  end_call(ranks, call);
}

}  // namespace fkc::experts
