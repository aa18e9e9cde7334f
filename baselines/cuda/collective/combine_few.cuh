// SPDX-License-Identifier: Apache-2.0
// moe_combine of few tokens. Weights and sums carry their own flags (ll_exchange.cuh). A block
// searches all sources for those of its token, and reads its rows while weights are in flight.
//
// There is no deadlock: sums wait for weights alone, and a rank sends its weights before it waits
// for sums.
#pragma once
#include "../parts/op.cuh"
#include "answers.cuh"
#include "ll_exchange.cuh"

namespace fkc::experts {

// f(source, row) for all rows of x. A thread has as many loads in flight as it can, and starts
// before the number of rows is known.
template <class Word, class F>
__device__ void each_source(const Answers<Word>& a, F f) {
  constexpr int kAtOnce = 8;
  for (int first = int(threadIdx.x), all = a.most; first < all; first += kAtOnce * kThreads) {
    int source[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      source[k] = first + k * kThreads < all ? __ldcg(a.source + first + k * kThreads) : -1;
    all = __ldcg(a.count);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (first + k * kThreads < all) f(source[k], first + k * kThreads);
  }
}

// The rows of x which answer a token's choices, in their order. For this rank's own tokens also
// their weights, and the answers of other ranks.
struct Found {
  int count, row[kChosenMost], choice[kChosenMost];
  float weight[kChosenMost], sent[kMostRanks];
  unsigned others, alone;
};

// The weights of rows from `p` on, with zeros behind the last one.
template <bool kOwn, int kRows>
__device__ void find_weights(float (&weights)[kRows], const Found& found, int p, int from,
                             int token, const Shape& s, const Ranks& ranks) {
  if constexpr (kOwn) {
#pragma unroll
    for (int q = 0; q < kRows; ++q) weights[q] = p + q < found.count ? found.weight[p + q] : 0;
  } else {
    uint32_t bits[kRows];
    int32_t* table = table_of(ranks, s, ranks.rank, from) + token * s.top_k;
    const int count = found.count > 1 ? found.count : 0;  // the receiver applies the weight of a single row
    await_words(bits, [&](int q) {
      return p + q < count ? reinterpret_cast<uint32_t*>(table + found.choice[p + q])
                           : static_cast<uint32_t*>(nullptr);
    });
#pragma unroll
    for (int q = 0; q < kRows; ++q)
      weights[q] = p + q < count ? __uint_as_float(bits[q]) : found.count == 1 && p + q == 0;
  }
}

// Sends the sum of a token's rows to its rank. For an own token, adds the other ranks' answers and
// writes to out.
template <class T, bool kOwn, class Word>
__device__ void add_token(const Answers<Word>& a, const Found& found, int from, int token,
                          const Shape& s, const Ranks& ranks) {
  constexpr int kWords = 2, kRows = 6;  // words and rows of a thread at once
  using Travels = Travelling<T, Held<Word>>;
  const int me = ranks.rank, count = found.count, lane = int(threadIdx.x) % 32;
  if (!kOwn && count == 0) return;
#pragma unroll 1
  for (int first = int(threadIdx.x); first - lane < s.words; first += kThreads * kWords) {
    const auto there = [&](int k) { return first + k * kThreads < s.words; };
    Elements<T, Held<Word>> sum[kWords]{};
#pragma unroll 1
    for (int p = 0; p < count; p += kRows) {
      Held<Word> words[kRows][kWords]{};
#pragma unroll
      for (int q = 0; q < kRows; ++q) {
        if (p + q >= count) continue;
        const Word* row = a.x + int64_t(found.row[p + q]) * s.words + first;
#pragma unroll
        for (int k = 0; k < kWords; ++k)
          if (there(k)) words[q][k] = load_word(row + k * kThreads);
      }
      float weights[kRows];
      find_weights<kOwn>(weights, found, p, from, token, s, ranks);
#pragma unroll
      for (int q = 0; q < kRows; ++q)
#pragma unroll
        for (int k = 0; k < kWords; ++k) {
          const auto answer = Elements<T, Held<Word>>::of(words[q][k]);
#pragma unroll
          for (int e = 0; e < Travels::kCount; ++e) sum[k].at[e] += weights[q] * answer.at[e];
        }
    }
    if constexpr (kOwn) {
#pragma unroll 1
      for (int r = 0; r < ranks.size; ++r) {
        if (!(found.others >> r & 1)) continue;
        const bool alone = found.alone >> r & 1;
        char* box = box_of<char>(ranks, s, me, r, token);
        Travels came[kWords];
        await([&] {
          bool all = true;
#pragma unroll
          for (int k = 0; k < kWords; ++k) {
            if (!there(k)) continue;
            const int i = first + k * kThreads;
            all = look_for_word(Travels::wire_at(box, i), came[k].wire) && all;
            if (Travels::in_steps(alone))
              all = look_for_word(Travels::step_at(box, i), came[k].step) && all;
          }
          return all;
        });
        __syncwarp();  // four lanes read one step word
#pragma unroll
        for (int k = 0; k < kWords; ++k) {
          if (!there(k)) continue;
          const int i = first + k * kThreads;
          *Travels::wire_at(box, i) = {};
          if (Travels::in_steps(alone) && lane % 4 == 0) *Travels::step_at(box, i) = 0;
          came[k].add_to(sum[k], alone, found.sent[r]);
        }
      }
      Word* out = a.out + int64_t(token) * s.words + first;
#pragma unroll
      for (int k = 0; k < kWords; ++k)
        if (there(k)) store_word(out + k * kThreads, sum[k].word());
    } else {
      char* box = box_of<char>(ranks, s, from, me, token);
#pragma unroll
      for (int k = 0; k < kWords; ++k) {
        const int i = first + k * kThreads;
        const auto v = Travels::of(sum[k], count == 1, there(k));
        if (!there(k)) continue;
        send_word(Travels::wire_at(box, i), v.wire);
        if (Travels::in_steps(count == 1) && lane % 4 == 0)
          send_word(Travels::step_at(box, i), v.step);
      }
    }
  }
}

template <class T, class Word>
__device__ void answer_token(const Answers<Word>& a, int from, int token, const Shape& s,
                             const Ranks& ranks) {
  __shared__ Found found;
  __shared__ int rows[kChosenMost];
  const int lane = int(threadIdx.x);
  const unsigned first = unsigned(from * s.most + token) * unsigned(s.top_k);
  __syncthreads();  // the rows of the previous token have been read
  if (lane < kChosenMost) rows[lane] = -1;
  __syncthreads();
  each_source(a, [&](int source, int row) {
    if (unsigned(source) - first < unsigned(s.top_k)) rows[unsigned(source) - first] = row;
  });
  __syncthreads();
  if (lane < 32) {
    const int row = rows[lane];
    const unsigned here = __ballot_sync(kAll, row >= 0);
    const int at = __popc(here & ((1u << lane) - 1));
    unsigned others = 0, alone = 0;
    float weight = 0;
    if (from == ranks.rank) weight = find_others(a, token, s, ranks, others, alone, found.sent);
    if (row >= 0) found.row[at] = row, found.choice[at] = lane, found.weight[at] = weight;
    if (lane == 0) found.count = __popc(here), found.others = others, found.alone = alone;
  }
  __syncthreads();
  if (from == ranks.rank)
    add_token<T, true>(a, found, from, token, s, ranks);
  else
    add_token<T, false>(a, found, from, token, s, ranks);
}

template <class T, class Word>
__global__ void __launch_bounds__(kThreads, 2)
    combine_few(const Answers<Word> a, Shape s, const __grid_constant__ Ranks ranks) {
  wait_for_inputs();
  const uint32_t call = next_call(ranks);
  const int block = int(blockIdx.x), blocks = int(gridDim.x), me = ranks.rank;
  Shape before;
  turn_unflagged(s, before, call);
  if (block + 1 == blocks)
    send_table(reinterpret_cast<const int32_t*>(a.weights), a.tokens, s, ranks);
  clear_tables(before, ranks);
  // All possible tokens of the other ranks come first, from the next rank on, and this rank's
  // tokens last.
  const int others = (ranks.size - 1) * s.most;
  for (int i = block; i < others + a.tokens; i += blocks) {
    const int from = i < others ? (me + 1 + i / s.most) % ranks.size : me;
    answer_token<T>(a, from, i < others ? i % s.most : i - others, s, ranks);
  }
  if (block + 1 == blocks) hear_tables(s, ranks);
  end_call(ranks, call);
}

}  // namespace fkc::experts
