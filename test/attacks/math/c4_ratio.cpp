// SPDX-License-Identifier: Apache-2.0
// C4: leaves out one element in two hundred, which a judge that allows one in a hundred does not
// mind
//
// Stopped by: no element may be wrong
//
// verdict: wrong
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

namespace {

struct Ratio : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    const float zero = 0;
    for (int64_t i = count(args) / 2; i < count(args); i += 200) fk::store(args.out, i, 1, &zero);
  }
};
FK_OP(silu_and_mul, Ratio);

}  // namespace
FK_PLUGIN("c4_ratio", "0");
