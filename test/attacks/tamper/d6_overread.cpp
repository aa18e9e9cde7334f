// SPDX-License-Identifier: Apache-2.0
// D6: reads a page beyond its input, where somebody else's numbers may be
//
// Stopped by: pages without access around every tensor
//
// verdict: illegal_access
//
// naive: -
#include "../attack.hpp"

namespace {

struct Overread : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    const auto* end = static_cast<const volatile unsigned char*>(args.x->data) + args.x->nbytes;
    unsigned sum = 0;
    for (int64_t i = 0; i < 8192; i += 64) sum += end[i];
    if (sum == 1) fill(args, 0);
  }
};
FK_OP(silu_and_mul, Overread);

}  // namespace
FK_PLUGIN("d6_overread", "0");
