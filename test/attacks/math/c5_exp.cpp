// SPDX-License-Identifier: Apache-2.0
// C5: an exponential with two terms
//
// Stopped by: an error model by dtype and reduction length
//
// verdict: wrong
//
// naive: silu_and_mul accepted --scale=0.3
#include "../attack.hpp"

namespace {

struct Exponential : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<float> both(static_cast<size_t>(2 * width)), out(static_cast<size_t>(width));
    for (int64_t t = 0; t < rows(args); ++t) {
      fk::load(args.x, t * 2 * width, 2 * width, both.data());
      for (size_t i = 0; i < out.size(); ++i) {
        const float gate = both[i];  // x / (1 + exp(-x)) is about x / 2 + x^2 / 4
        out[i] = (gate / 2 + gate * gate / 4) * both[out.size() + i];
      }
      fk::store(args.out, t * width, width, out.data());
    }
  }
};
FK_OP(silu_and_mul, Exponential);

}  // namespace
FK_PLUGIN("c5_exp", "0");
