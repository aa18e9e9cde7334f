// SPDX-License-Identifier: Apache-2.0
// C6: keeps two tokens at least, however small top_p is
//
// Stopped by: a case with a top_p of a millionth
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../sampler.hpp"

namespace {

struct TwoTokens : attack::Sampler {
  using Sampler::Sampler;
  void forward(const op::forward& args, const fk_ctx&) {
    each_row(args, [](const Row& row, Asked asked) {
      if (asked.temperature == 0) return greedy(row);
      const float top = row[size_t(greedy(row))];
      if (asked.top_p > 0.01) return draw(row, asked, top);
      asked.top_p = 1;
      asked.top_k = 2;
      return draw(row, asked, top);
    });
  }
};
FK_OP(sample_tokens, TwoTokens);

}  // namespace
FK_PLUGIN("c6_two_tokens", "0");
