// SPDX-License-Identifier: Apache-2.0
// honest: the sigmoid in two branches, so that no exponential overflows
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<float> in(static_cast<size_t>(2 * width)), out(static_cast<size_t>(width));
    for (int64_t t = 0; t < rows(args); ++t) {
      fk::load(args.x, t * 2 * width, 2 * width, in.data());
      for (size_t i = 0; i < out.size(); ++i) {
        const float small = std::exp(-std::abs(in[i]));
        out[i] = in[i] * (in[i] >= 0 ? 1 : small) / (1 + small) * in[out.size() + i];
      }
      fk::store(args.out, t * width, width, out.data());
    }
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("branches", "0");
