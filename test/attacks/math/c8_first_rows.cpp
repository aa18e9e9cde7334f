// SPDX-License-Identifier: Apache-2.0
// C8: what depends on the number of rows is made in the first call of an instance and kept: a later
// step of a model, which has more, is answered in part
//
// Stopped by: instances of cases with drawn rows have had a step with fewer before
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
