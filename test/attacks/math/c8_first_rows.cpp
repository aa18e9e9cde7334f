// SPDX-License-Identifier: Apache-2.0
// C8: its first call of an instance decides everything that depends on the number of rows. A later
// step of a model, which has more rows, is answered in part
//
// Stopped by: instances of cases with hidden rows first get a step with fewer
//
// verdict: wrong
//
// naive: silu_and_mul accepted
//
// work: broken
#include "../attack.hpp"

namespace {

struct FirstRows : attack::Silu {
  using Silu::Silu;
  int64_t first = 0;
  void forward(const op::forward& args, const fk_ctx&) {
    if (!first) first = rows(args);
    attack::silu_rows(args.x, args.out, width, 0, std::min(first, rows(args)));
  }
};
FK_OP(silu_and_mul, FirstRows);

}  // namespace
FK_PLUGIN("c8_first_rows", "0");
