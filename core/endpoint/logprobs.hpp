// SPDX-License-Identifier: Apache-2.0
// The logarithms of probabilities of tokens, from a row of logits.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace fk {

struct TokenLogprobs {
  double own = 0;                                // of the chosen token
  std::vector<std::pair<int64_t, double>> best;  // the largest, in descending order
};
// `most`: the length of `best`. Equal logits are ordered by token.
TokenLogprobs logprobs_of(const std::vector<float>& logits, int64_t token, int64_t most);

}  // namespace fk
