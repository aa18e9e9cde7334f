// SPDX-License-Identifier: Apache-2.0
// C6: takes temperatures below a fifth, but for 0, for a fifth
//
// Stopped by: a case with temperatures of a ten-thousandth
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../sampler.hpp"

namespace {

struct LeastTemperature : attack::Sampler {
  using Sampler::Sampler;
  void forward(const op::forward& args, const fk_ctx&) {
    each_row(args, [](const Row& row, Asked asked) {
      if (asked.temperature == 0) return greedy(row);
      asked.temperature = std::max(asked.temperature, 0.2);
      return draw(row, asked, row[size_t(greedy(row))]);
    });
  }
};
FK_OP(sample_tokens, LeastTemperature);

}  // namespace
FK_PLUGIN("c6_least_temperature", "0");
