// SPDX-License-Identifier: Apache-2.0
// honest: a vector per row
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    for (int64_t t = 0; t < rows(args); ++t) {
      std::vector<float> in(static_cast<size_t>(2 * width));
      fk::load(args.x, t * 2 * width, 2 * width, in.data());
      std::vector<float> out;
      for (int64_t i = 0; i < width; ++i) {
        const float gate = in[static_cast<size_t>(i)];
        out.push_back(gate / (1 + std::exp(-gate)) * in[static_cast<size_t>(width + i)]);
      }
      fk::store(args.out, t * width, width, out.data());
    }
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("allocates", "0");
