// SPDX-License-Identifier: Apache-2.0
// Exchanges of few tokens in the LL protocol: words carry their own flags. A box holds zeros before
// a word comes. Words are sent inverted, so a word which is not zero has arrived. A NaN with all
// bits set would be sent as zero. It is sent as the neighbouring NaN. So no thread waits for a
// fence and a number behind the rows.
//
// The reader of a box leaves zeros, and there are two sets of boxes. All threads read tables, so
// the next call clears them after all of its own tables have arrived. There are three sets of
// tables. A rank writes to a set again two or three calls later. Until then it has heard from this
// rank in every call, so this rank's call on the set has ended.
#pragma once
#include <type_traits>

#include "../parts/peer.cuh"
#include "experts.cuh"

namespace fkc::experts {

// Parts of a word, each with a flag of its own.
template <class Word>
struct Parts {
  using Part = std::conditional_t<sizeof(Word) == 1, unsigned char,
                                  std::conditional_t<sizeof(Word) == 2, unsigned short, uint32_t>>;
  using Whole = std::conditional_t<sizeof(Word) <= 4, Part,
                                   std::conditional_t<sizeof(Word) == 8, uint2, uint4>>;
  static constexpr int kCount = int(sizeof(Word) / sizeof(Part));
  Part at[kCount];
  __device__ static Parts of(const Word& word) {
    Parts p;
    memcpy(p.at, &word, sizeof word);
    return p;
  }
  __device__ Word word() const {
    Word w;
    memcpy(&w, at, sizeof w);
    return w;
  }
  __device__ bool whole() const {
    bool all = true;
#pragma unroll
    for (int i = 0; i < kCount; ++i) all = all && at[i] != 0;
    return all;
  }
  __device__ Parts inverted() const {
    Parts p;
#pragma unroll
    for (int i = 0; i < kCount; ++i) p.at[i] = Part(~at[i]);
    return p;
  }
};

template <class Word>
__device__ void send_word(Word* to, const Word& word) {
  auto parts = Parts<Word>::of(word).inverted();
#pragma unroll
  for (int i = 0; i < Parts<Word>::kCount; ++i)
    if (parts.at[i] == 0) parts.at[i] = 1;
  typename Parts<Word>::Whole whole;
  memcpy(&whole, &parts, sizeof whole);
  store_relaxed(reinterpret_cast<typename Parts<Word>::Whole*>(to), whole);
}
// True if the word has arrived.
template <class Word>
__device__ bool look_for_word(const Word* at, Word& word) {
  const auto whole = load_relaxed(reinterpret_cast<const typename Parts<Word>::Whole*>(at));
  Word as_sent;
  memcpy(&as_sent, &whole, sizeof as_sent);
  const auto parts = Parts<Word>::of(as_sent);
  word = parts.inverted().word();
  return parts.whole();
}
template <class F>
__device__ void await(F came) {
  for (Waiting waiting; !came();) waiting.turn();
}
// Waits until all words of a thread have arrived. at(k): the place of word k, or null.
template <int kCount, class Word, class At>
__device__ void await_words(Word (&words)[kCount], At at) {
  await([&] {
    bool all = true;
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      if (const Word* from = at(k)) all = look_for_word(from, words[k]) && all;
    return all;
  });
}
// The same, and clears the places.
template <int kCount, class Word, class At>
__device__ void take_words(Word (&words)[kCount], At at) {
  await_words(words, at);
#pragma unroll
  for (int k = 0; k < kCount; ++k)
    if (Word* from = at(k)) *from = Word{};
}

// Selects the sets of a call, and the tables of the previous call.
__device__ inline void turn_unflagged(Shape& s, Shape& before, uint32_t call) {
  before = s;
  const auto turn = [](Shape& of, uint32_t number) {
    of.tokens_at += number % 3 * of.tables, of.table_at += number % 3 * of.tables;
    of.rows_at += number % 2 * of.boxes;
  };
  turn(s, call), turn(before, call + 2);
}
// The number of a rank's tokens. The rest of the word is unused.
__device__ inline uint4* head_of(const Ranks& ranks, const Shape& s, int owner, int from) {
  return reinterpret_cast<uint4*>(ranks.at[owner] + s.tokens_at) + from;
}
static_assert(kMostRanks * sizeof(uint4) <= 256, "heads have the room of numbers of tokens");

// By a block: sends this rank's table to all ranks, four choices at once, and then the number of
// its tokens. A rank which has received this number mostly finds the table too.
__device__ inline void send_table(const int32_t* words, int tokens, const Shape& s,
                                  const Ranks& ranks) {
  const int all = tokens * s.top_k;
  for (int i = int(threadIdx.x) * 4; i < all; i += kThreads * 4) {
    unsigned four[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) four[k] = i + k < all ? unsigned(words[i + k]) : 0;
    for (int r = 0; r < ranks.size; ++r)
      send_word(reinterpret_cast<uint4*>(table_of(ranks, s, r, ranks.rank) + i),
                uint4{four[0], four[1], four[2], four[3]});
  }
  if (int(threadIdx.x) < ranks.size)
    send_word(head_of(ranks, s, int(threadIdx.x), ranks.rank), uint4{unsigned(tokens), 0, 0, 0});
}
// By all blocks: clears the tables of the previous call.
__device__ inline void clear_tables(const Shape& before, const Ranks& ranks) {
  auto* tables = reinterpret_cast<uint4*>(ranks.at[ranks.rank] + before.tokens_at);
  const int64_t words = before.tables / int64_t(sizeof(uint4));
  for (int64_t i = blockIdx.x * kThreads + threadIdx.x; i < words; i += gridDim.x * kThreads)
    tables[i] = uint4{0, 0, 0, 0};
}
// By a block: the number of tokens of the rank with the number of each lane, and 0 beyond the
// ranks.
__device__ inline int hear_tokens(const Shape& s, const Ranks& ranks) {
  __shared__ int heard[kMostRanks];
  if (int(threadIdx.x) < ranks.size) {
    uint4 head[1];
    await_words(head, [&](int) { return head_of(ranks, s, ranks.rank, int(threadIdx.x)); });
    heard[threadIdx.x] = int(head[0].x);
  }
  __syncthreads();
  return int(threadIdx.x) % 32 < ranks.size ? heard[threadIdx.x % 32] : 0;
}
// By a block: waits for the whole tables of the other ranks. So none of their words arrives after
// the tables are cleared.
__device__ inline void hear_tables(const Shape& s, const Ranks& ranks) {
  for (int r = 0; r < ranks.size; ++r) {
    if (r == ranks.rank) continue;
    uint4 words[1]{};
    await_words(words, [&](int) { return head_of(ranks, s, ranks.rank, r); });
    const int all = int(words[0].x) * s.top_k;
    auto* table = table_of(ranks, s, ranks.rank, r);
    for (int i = int(threadIdx.x) * 4; i < all; i += kThreads * 4)
      await_words(words, [&](int) { return reinterpret_cast<uint4*>(table + i); });
  }
}

}  // namespace fkc::experts
