// SPDX-License-Identifier: Apache-2.0
// honest: sets the output to zero before it computes
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    std::memset(args.out->data, 0, static_cast<size_t>(args.out->nbytes));
    honest(args);
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("clears_first", "0");
