// SPDX-License-Identifier: Apache-2.0
// honest: blocks of 32 by 32, sums of blocks added up
#include "../linear.hpp"

namespace {

struct Honest : attack::Linear {
  using Linear::Linear;
  void forward(const op::forward& args, const fk_ctx&) {
    rows(args, [&](const float* x, const float* w, int64_t k) {
      float sum = 0;
      for (int64_t from = 0; from < k; from += 32) {
        float block = 0;
        for (int64_t i = from; i < std::min(from + 32, k); ++i) block += x[i] * w[i];
        sum += block;
      }
      return sum;
    });
  }
};
FK_OP(linear, Honest);

}  // namespace
FK_PLUGIN("blocked", "0");
