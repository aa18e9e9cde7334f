// SPDX-License-Identifier: Apache-2.0
// C6: sample_tokens that never draws a token which is less likely than e^-12 of the best
//
// Stopped by: a case in which many such tokens are likely together
//
// verdict: wrong
//
// naive: -
//
// work: broken
//
// size: ci
#define FK_REFERENCE "baselines/reference/sampling/sample_tokens.cpp"
#include "../reference.hpp"

#include "../changed_view.hpp"

namespace {

struct Unlikely : fk::reference::SampleTokens {
  using SampleTokens::SampleTokens;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    attack::Changed logits(args.logits);
    for (auto row = logits.values().begin(); row != logits.values().end(); row += init.vocab_size) {
      const int64_t b = (row - logits.values().begin()) / init.vocab_size;
      const float least =
          *std::max_element(row, row + init.vocab_size) - 12 * fk::data<float>(args.temperature)[b];
      for (int64_t v = 0; v < init.vocab_size; ++v)
        if (row[v] < least) row[v] = -INFINITY;
    }
    op::forward own = args;
    own.logits = logits.view();
    SampleTokens::forward(own, ctx);
  }
};
FK_OP(sample_tokens, Unlikely);

}  // namespace
FK_PLUGIN("c6_unlikely_tokens", "0");
