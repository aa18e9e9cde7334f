// SPDX-License-Identifier: Apache-2.0
// C6: takes the exponential of logits without subtracting the largest, which is right as long as
// none is far from 0
//
// Stopped by: a case whose largest logits over the temperature have an exponential beyond float32
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../sampler.hpp"

namespace {

struct NoMaximum : attack::Sampler {
  using Sampler::Sampler;
  void forward(const op::forward& args, const fk_ctx&) {
    each_row(args, [](const Row& row, const Asked& asked) {
      return asked.temperature == 0 ? greedy(row) : draw(row, asked, 0);
    });
  }
};
FK_OP(sample_tokens, NoMaximum);

}  // namespace
FK_PLUGIN("c6_no_maximum", "0");
