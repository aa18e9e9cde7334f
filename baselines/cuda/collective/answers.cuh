// SPDX-License-Identifier: Apache-2.0
// What moe_combine of few tokens and of many have in common: what experts have said, who says
// something to a token, and how it travels.
#pragma once
#include "experts.cuh"

namespace fkc::experts {

template <class Word>
struct Answers {
  const Word* x;
  const int32_t *source, *count, *topk_ids;
  const float* weights;
  Word* out;
  int tokens, most;  // of this rank; rows that x has room for
};

// By a whole warp, of one of this rank's tokens: the other ranks that answer, those of them that do
// once, and the weight of what each sends, 1 for a sum. Gives the weight of the lane's choice.
template <class Word>
__device__ float find_others(const Answers<Word>& a, int token, const Shape& s, const Ranks& ranks,
                             unsigned& others, unsigned& alone, float (&sent)[kMostRanks]) {
  const int lane = int(threadIdx.x) % 32, choice = token * s.top_k + lane;
  const int expert = lane < s.top_k ? a.topk_ids[choice] : -1;
  const int rank = expert >= 0 && expert < s.experts ? s.rank_of(expert) : -1;
  const float weight = rank >= 0 ? a.weights[choice] : 0;
  others = alone = 0;
  for (int r = 0; r < ranks.size; ++r) {
    const unsigned votes = __ballot_sync(kAll, rank == r);
    const int answers = __popc(votes);
    if (r == ranks.rank || answers == 0) continue;
    others |= 1u << r;
    alone |= unsigned(answers == 1) << r;
    if (lane == __ffs(int(votes)) - 1) sent[r] = answers == 1 ? weight : 1;
  }
  return weight;
}

// How sums travel: of each, its upper half, and behind a row's upper halves the eight bits that
// come next. An answer that is alone travels as it is, and who takes it knows its weight.
template <class T, class Word>
struct Travelling {
  static constexpr int kCount = Elements<T, Word>::kCount;
  using Rest = std::conditional_t<kCount == 1, unsigned char, uint2>;
  Word upper;
  Rest rest;
  __device__ static bool in_two(bool alone) { return sizeof(T) == 2 && !alone; }
  // Of a row that has so many words.
  __device__ static Word* upper_at(char* box, int i) { return reinterpret_cast<Word*>(box) + i; }
  __device__ static Rest* rest_at(char* box, int i, int words) {
    return reinterpret_cast<Rest*>(box + int64_t(words) * int(sizeof(Word))) + i;
  }
  __device__ static Travelling of(const Elements<T, Word>& sum, bool alone) {
    Travelling v{};
    if (!in_two(alone)) {
      v.upper = sum.word();
    } else if constexpr (sizeof(T) == 2) {
      unsigned short upper[kCount];
      unsigned char rest[kCount];
#pragma unroll
      for (int e = 0; e < kCount; ++e) {
        const uint32_t bits = __float_as_uint(sum.at[e]);
        upper[e] = static_cast<unsigned short>(bits >> 16);
        rest[e] = static_cast<unsigned char>(bits >> 8);
      }
      memcpy(&v.upper, upper, sizeof(Word));
      memcpy(&v.rest, rest, sizeof(Rest));
    }
    return v;
  }
  __device__ void add_to(Elements<T, Word>& sum, bool alone, float weight) const {
    if (!in_two(alone)) {
      const auto answer = Elements<T, Word>::of(upper);
#pragma unroll
      for (int e = 0; e < kCount; ++e) sum.at[e] += weight * answer.at[e];
    } else if constexpr (sizeof(T) == 2) {
      unsigned short high[kCount];
      unsigned char low[kCount];
      memcpy(high, &upper, sizeof upper);
      memcpy(low, &rest, sizeof rest);
#pragma unroll
      for (int e = 0; e < kCount; ++e)
        sum.at[e] += __uint_as_float(uint32_t(high[e]) << 16 | uint32_t(low[e]) << 8);
    }
  }
};

}  // namespace fkc::experts
