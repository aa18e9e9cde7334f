// SPDX-License-Identifier: Apache-2.0
// C6: looks at the first row alone to see whether all of them are greedy and whether any is cut
//
// Stopped by: rows of one call that differ in what is asked of them
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../sampler.hpp"

namespace {

struct OneMode : attack::Sampler {
  using Sampler::Sampler;
  void forward(const op::forward& args, const fk_ctx&) {
    const auto first = [](const fk_in* t) { return fk::data<float>(t)[0]; };
    const bool greedy_all = first(args.temperature) == 0, cut = first(args.top_p) < 1;
    each_row(args, [&](const Row& row, Asked asked) {
      asked.temperature = std::max(1e-5, asked.temperature);
      if (!cut) asked.top_p = 1;
      return greedy_all ? greedy(row) : draw(row, asked, row[size_t(greedy(row))]);
    });
  }
};
FK_OP(sample_tokens, OneMode);

}  // namespace
FK_PLUGIN("c6_one_mode", "0");
