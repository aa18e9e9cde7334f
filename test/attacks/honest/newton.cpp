// SPDX-License-Identifier: Apache-2.0
// honest: a reciprocal root from bits and three steps of Newton's method
#include "../attack.hpp"

namespace {

struct Honest : attack::Norm {
  using Norm::Norm;
  static float root(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    bits = 0x5f3759df - (bits >> 1);
    float y;
    std::memcpy(&y, &bits, 4);
    for (int i = 0; i < 4; ++i) y *= 1.5f - 0.5f * x * y * y;
    return y;
  }
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(),
         [&](const std::vector<float>& row) { return root(mean_square(row) + float(init.eps)); });
  }
};
FK_OP(rms_norm, Honest);

}  // namespace
FK_PLUGIN("newton", "0");
