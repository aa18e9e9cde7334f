// SPDX-License-Identifier: Apache-2.0
// C10: writes NaN, which is never above a tolerance
//
// Stopped by: where NaN may stand is known from the reference
//
// verdict: wrong
//
// naive: silu_and_mul accepted
#include "../attack.hpp"

namespace {

struct Nan : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) { fill(args, std::nanf("")); }
};
FK_OP(silu_and_mul, Nan);

}  // namespace
FK_PLUGIN("c10_nan", "0");
