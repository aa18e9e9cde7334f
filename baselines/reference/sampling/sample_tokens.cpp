// SPDX-License-Identifier: Apache-2.0
// sample_tokens: sample_row() of sampling.hpp for each row.
#include "fk/ops/sample_tokens.h"
#include "sampling.hpp"

namespace fk::reference {
namespace {

struct SampleTokens : Base<sample_tokens> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.logits);
    need.scratch = scratch_bytes<SampleRows>(init.vocab_size);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const SampleRows rows(scratch, init.vocab_size);
    for (int64_t b = 0; b < args.logits->shape[0]; ++b) sample_row(args, args.logits, b, rows);
  }
};
FK_OP(sample_tokens, SampleTokens);

}  // namespace
}  // namespace fk::reference
