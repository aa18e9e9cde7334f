// SPDX-License-Identifier: Apache-2.0
// C6: takes a logit of -inf, which a grammar or a ban has masked, for 0, and draws its token
//
// Stopped by: the inputs `masked`, in which some logits of each row are -inf
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../sampler.hpp"

namespace {

struct MaskedDrawn : attack::Sampler {
  using Sampler::Sampler;
  void forward(const op::forward& args, const fk_ctx&) {
    each_row(args, [](Row row, const Asked& asked) {
      for (float& logit : row)
        if (!std::isfinite(logit)) logit = 0;
      const int64_t top = greedy(row);
      return asked.temperature == 0 ? top : draw(row, asked, row[size_t(top)]);
    });
  }
};
FK_OP(sample_tokens, MaskedDrawn);

}  // namespace
FK_PLUGIN("c6_masked_drawn", "0");
