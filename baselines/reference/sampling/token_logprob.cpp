// SPDX-License-Identifier: Apache-2.0
// token_logprob: the logarithm of a token's softmax probability. The largest logit is subtracted
// first, so that no exponential overflows.
#include "fk/ops/token_logprob.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct TokenLogprob : Base<token_logprob> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.logits);
    need.scratch = init.vocab_size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.vocab_size);
    for (int64_t b = 0; b < args.logits->shape[0]; ++b) {
      load(args.logits, offset(args.logits, b), init.vocab_size, row);
      const double top = *std::max_element(row, row + init.vocab_size);
      double sum = 0;
      for (int64_t v = 0; v < init.vocab_size; ++v) sum += std::exp(row[v] - top);
      const double logprob = row[index<int64_t>(args.tokens, b)] - top - std::log(sum);
      data<float>(args.logprob)[b] = static_cast<float>(logprob);
    }
  }
};
FK_OP(token_logprob, TokenLogprob);

}  // namespace
}  // namespace fk::reference
