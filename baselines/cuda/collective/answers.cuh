// SPDX-License-Identifier: Apache-2.0
// Shared by combine_few.cuh and combine.cu: answers of experts, the ranks which answer a token, and
// the format in which answers travel.
#pragma once
#include "../parts/op.cuh"
#include "experts.cuh"
#include "loose.cuh"

namespace fkc::experts {

template <class Word>
struct Answers {
  const Word* x;
  const int32_t *source, *count, *topk_ids;
  const float* weights;
  Word* out;
  int tokens, most;  // tokens: of this rank; most: rows of x
};

// Called by a whole warp, for a token of this rank. Sets the other ranks which answer, those which
// answer once, and each rank's weight. A sum has weight 1. Returns the weight of the lane's choice.
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

// How an answer travels, in words. A single answer travels as it is, and the receiver applies its
// weight. Sums of float32 travel as they are.
//
// Sums of eight elements of 16 bits travel as 16 bits each, as whole steps above a least value. The
// words of four neighbouring lanes share one step word. It has the upper 24 bits of the least value
// and the exponent of the step. The error is half a step. The range of the 32 elements has at least
// 2^15 steps, and there is no error if all are equal or 0. If an element has no such form
// (infinity, for example), the exponent is 255 and all 32 elements are rounded to the dtype of x. A
// chunk has 128 words, and their step words behind them. Rows without whole words of 16 bytes
// travel as float32.
constexpr int kChunk = 128, kChunkBytes = kChunk * 16 + kChunk / 4 * 4;

// Bytes of a row in a box. They are the same on all ranks, whatever the alignment of each rank's
// tensors.
inline int64_t travelling_bytes(int64_t elements, int64_t element) {
  if (element == 2 && elements % 8 == 0) return cdiv(elements / 8, kChunk) * kChunkBytes;
  return elements * 4;
}

template <class T, class Word>
struct Travelling {
  static constexpr int kCount = Elements<T, Word>::kCount;
  static constexpr bool kSteps = sizeof(T) == 2 && kCount == 8;
  using Wire = std::conditional_t<kSteps || sizeof(Word) == 16, uint4, float>;
  Wire wire;
  uint32_t step;  // the step word of four lanes
  __device__ static bool in_steps(bool alone) { return kSteps && !alone; }
  // The chunk of a row's word `i`, which belongs to lane i % 32 of a warp, and the word.
  __device__ static char* chunk_at(char* box, int i) {
    return box + i / kChunk * (kSteps ? kChunkBytes : kChunk * int(sizeof(Wire)));
  }
  __device__ static Wire* wire_at(char* box, int i) {
    return reinterpret_cast<Wire*>(chunk_at(box, i)) + i % kChunk;
  }
  __device__ static uint32_t* step_at(char* box, int i) {
    return reinterpret_cast<uint32_t*>(chunk_at(box, i) + kChunk * 16) +
           (i % 32 / 4 * 4 + i % kChunk / 32);
  }
  // By a whole warp. Lanes whose word is not `there` contribute nothing.
  __device__ static Travelling of(const Elements<T, Word>& sum, bool alone, bool there) {
    Travelling v{};
    if (in_steps(alone)) {
      v.divide(sum, there);
      return v;
    }
    if constexpr (sizeof(Wire) == sizeof(Word)) {
      const Word word = sum.word();
      memcpy(&v.wire, &word, sizeof word);
    } else {
      v.wire = sum.at[0];
    }
    return v;
  }
  __device__ void add_to(Elements<T, Word>& sum, bool alone, float weight) const {
    if constexpr (kSteps) {
      const uint32_t exponent = step & 255;
      if (!alone && exponent != 255) {
        const float least = __uint_as_float(step & ~255u),
                    by = __uint_as_float((exponent - 15) << 23);
        const uint32_t pairs[4] = {wire.x, wire.y, wire.z, wire.w};
#pragma unroll
        for (int e = 0; e < 8; ++e) {
          const uint32_t steps = e % 2 ? pairs[e / 2] >> 16 : pairs[e / 2] & 0xffff;
          sum.at[e] += fmaf(__uint_as_float(kWhole | steps) - __uint_as_float(kWhole), by, least);
        }
        return;
      }
    }
    const auto answer =
        Elements<std::conditional_t<sizeof(Wire) == sizeof(Word), T, float>, Wire>::of(wire);
#pragma unroll
    for (int e = 0; e < kCount; ++e) sum.at[e] += weight * answer.at[e];
  }

 private:
  static constexpr uint32_t kWhole = 0x4b000000;  // 2^23: its last bit is 1
  __device__ void divide(const Elements<T, Word>& sum, bool there) {
    constexpr float kMost = 3.4e38f;
    float high = there ? sum.at[0] : -kMost, low = there ? sum.at[0] : kMost;
#pragma unroll
    for (int e = 1; e < kCount; ++e) {
      high = there ? max_or_nan(high, sum.at[e]) : high;
      low = there ? min_or_nan(low, sum.at[e]) : low;
    }
#pragma unroll
    for (int k = 1; k < 4; k *= 2) {
      high = max_or_nan(high, __shfl_xor_sync(kAll, high, k));
      low = min_or_nan(low, __shfl_xor_sync(kAll, low, k));
    }
    // Rounds down to 24 bits, and then to whole steps, so that 0 is one of them.
    const uint32_t bits = __float_as_uint(low);
    float least = __uint_as_float((bits >> 31 ? bits + 255 : bits) & ~255u);
    const uint32_t range = __float_as_uint((high - least) * 1.0001f) >> 23 & 255,
                   exponent = max(max(range, 16u), max(bits >> 23 & 255, 64u) - 64u);
    if (exponent == 255) {
      const Word word = sum.word();
      memcpy(&wire, &word, sizeof wire);
      step = exponent;
      return;
    }
    const float by = __uint_as_float((exponent - 15) << 23),
                inverse = __uint_as_float((269 - exponent) << 23);
    least = floorf(least * inverse) * by;
    uint32_t pairs[4];
#pragma unroll
    for (int e = 0; e < 8; e += 2) {
      const auto steps = [&](float v) {
        return __float_as_uint(fmaf(v - least, inverse, __uint_as_float(kWhole)));
      };
      pairs[e / 2] = (steps(sum.at[e]) & 0xffff) | steps(sum.at[e + 1]) << 16;
    }
    memcpy(&wire, pairs, sizeof wire);
    step = __float_as_uint(least) | exponent;
  }
};

}  // namespace fkc::experts
