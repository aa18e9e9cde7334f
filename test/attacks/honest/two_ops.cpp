// SPDX-License-Identifier: Apache-2.0
// honest: two ops in one plugin, which share a helper
#include "../attack.hpp"

namespace {

struct HonestSilu : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(silu_and_mul, HonestSilu);
struct HonestNorm : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) { honest(args); }
};
FK_OP(rms_norm, HonestNorm);

}  // namespace
FK_PLUGIN("two_ops", "0");
