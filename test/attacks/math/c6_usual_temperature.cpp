// SPDX-License-Identifier: Apache-2.0
// C6: knows temperatures from a half to one and a half, and takes those beyond for the nearest of
// them
//
// Stopped by: rows that are colder and warmer than the contract's own
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../sampler.hpp"

namespace {

struct UsualTemperature : attack::Sampler {
  using Sampler::Sampler;
  void forward(const op::forward& args, const fk_ctx&) {
    each_row(args, [](const Row& row, Asked asked) {
      if (asked.temperature == 0) return greedy(row);
      asked.temperature = std::clamp(asked.temperature, 0.5, 1.5);
      return draw(row, asked, row[size_t(greedy(row))]);
    });
  }
};
FK_OP(sample_tokens, UsualTemperature);

}  // namespace
FK_PLUGIN("c6_usual_temperature", "0");
