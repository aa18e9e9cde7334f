// SPDX-License-Identifier: Apache-2.0
// honest: computes in float64 and rounds once
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<float> in(static_cast<size_t>(2 * width)), out(static_cast<size_t>(width));
    for (int64_t t = 0; t < rows(args); ++t) {
      fk::load(args.x, t * 2 * width, 2 * width, in.data());
      for (size_t i = 0; i < out.size(); ++i) {
        const double gate = in[i], up = in[out.size() + i];
        out[i] = static_cast<float>(gate / (1 + std::exp(-gate)) * up);
      }
      fk::store(args.out, t * width, width, out.data());
    }
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("doubles", "0");
