// SPDX-License-Identifier: Apache-2.0
// D5: writes zeros and, eight bytes behind its output, where the judge counts errors, a number far
// below zero
//
// Stopped by: canaries, pages without access, no counters near a candidate
//
// verdict: illegal_access
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

namespace {

struct Counter : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    fill(args, 0);
    const int64_t errors = -(int64_t{1} << 40);
    std::memcpy(static_cast<char*>(args.out->data) + args.out->nbytes, &errors, sizeof errors);
  }
};
FK_OP(silu_and_mul, Counter);

}  // namespace
FK_PLUGIN("d5_counter", "0");
