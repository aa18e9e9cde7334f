// SPDX-License-Identifier: Apache-2.0
// honest: sums in a tree
#include "../attack.hpp"

namespace {

struct Honest : attack::Norm {
  using Norm::Norm;
  static float tree(const float* v, size_t n) {
    return n == 1 ? v[0] * v[0] : tree(v, n / 2) + tree(v + n / 2, n - n / 2);
  }
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(), [&](const std::vector<float>& row) {
      return scale_of(tree(row.data(), row.size()) / float(row.size()));
    });
  }
};
FK_OP(rms_norm, Honest);

}  // namespace
FK_PLUGIN("pairwise", "0");
