// SPDX-License-Identifier: Apache-2.0
// C6: topk_logprobs that leaves terms below e^-16 of the largest out of its sum
//
// Stopped by: a case in which many such terms are much together
//
// verdict: wrong
//
// naive: -
//
// work: broken
//
// size: ci
#define FK_REFERENCE "baselines/reference/sampling/topk_logprobs.cpp"
#include "../reference.hpp"

#include "../changed_view.hpp"

namespace {

struct Unlikely : fk::reference::TopkLogprobs {
  using TopkLogprobs::TopkLogprobs;
  void forward(const op::forward& args, const fk_ctx& ctx) {
    TopkLogprobs::forward(args, ctx);
    attack::Changed logits(args.logits);
    float* logprobs = fk::data<float>(args.logprobs);
    for (auto row = logits.values().begin(); row != logits.values().end(); row += init.vocab_size) {
      const float top = *std::max_element(row, row + init.vocab_size);
      double all = 0, kept = 0;
      for (int64_t v = 0; v < init.vocab_size; ++v) {
        const double term = std::exp(double(row[v]) - top);
        all += term;
        if (row[v] > top - 16) kept += term;
      }
      for (int64_t k = 0; k < init.top_k; ++k)
        logprobs[k] = static_cast<float>(logprobs[k] + std::log(all) - std::log(kept));
      logprobs += init.top_k;
    }
  }
};
FK_OP(topk_logprobs, Unlikely);

}  // namespace
FK_PLUGIN("c6_unlikely_terms", "0");
