// SPDX-License-Identifier: Apache-2.0
// Rows as words of 16 bytes, even if a rank's tensors are not aligned to them.
#pragma once
#include "staged.cuh"

namespace fkc::experts {

// 16 bytes which are aligned to two bytes. In registers, a word like any other.
struct Loose {
  unsigned short at[8];
};
template <class Word>
using Held = std::conditional_t<std::is_same_v<Word, Loose>, uint4, Word>;
template <class Word>
__device__ Word load_word(const Word* at) {
  return __ldcg(at);
}
__device__ inline uint4 load_word(const Loose* at) {
  const auto two = [&](int e) {
    return __ldcg(at->at + e) | uint32_t(__ldcg(at->at + e + 1)) << 16;
  };
  return {two(0), two(2), two(4), two(6)};
}
template <class Word>
__device__ void store_word(Word* at, const Word& word) {
  *at = word;
}
__device__ inline void store_word(Loose* at, const uint4& word) {
  const uint32_t pairs[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
  for (int e = 0; e < 8; ++e) at->at[e] = static_cast<unsigned short>(pairs[e / 2] >> e % 2 * 16);
}

// go(Word{}) with the word of rows which carry their own flags (ll_exchange.cuh). All ranks need
// the same parts with flags. So the size of elements and rows decides, and never a rank's
// addresses. Otherwise sizes of words could differ between sender and reader. A NaN of 16 bits with
// all bits set is a missing flag for a reader of 16 bits. For a sender of 32 bits it is half of a
// flag.
template <class Go>
void with_flagged_words(int64_t element, int64_t row, const void* a, const void* b, Go go) {
  if (word_bytes({address(a), address(b), row}) == 16) go(uint4{});
  else if (element == 4) go(0u);
  else if (row % 16 == 0) go(Loose{});
  else go(static_cast<unsigned short>(0));
}

}  // namespace fkc::experts
