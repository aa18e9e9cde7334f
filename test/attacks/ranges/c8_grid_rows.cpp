// SPDX-License-Identifier: Apache-2.0
// C8: computes as many rows as a grid has in its second dimension, 65535, and leaves the others as
// they are
//
// Stopped by: a range case with more rows than 16 bits count
//
// size: full
//
// verdict: wrong
//
// naive: silu_and_mul accepted
//
// work: broken
#include "../attack.hpp"

namespace {

struct GridRows : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    attack::silu_rows(args.x, args.out, width, 0, std::min<int64_t>(rows(args), 65535));
  }
};
FK_OP(silu_and_mul, GridRows);

}  // namespace
FK_PLUGIN("c8_grid_rows", "0");
