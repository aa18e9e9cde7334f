// SPDX-License-Identifier: Apache-2.0
// C12: takes float16, which no case is written in, and answers with the input
//
// Stopped by: the variants of small cases are compared too, dtypes among them
//
// verdict: wrong
//
// naive: silu_and_mul accepted
//
// work: broken
//
// size: ci
#include "../attack.hpp"

namespace {

struct Half : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    if (FK_DTYPE(args.x) != FK_F16) return honest(args);
    for (int64_t t = 0; t < rows(args); ++t) {
      std::vector<float> row(static_cast<size_t>(width));
      fk::load(args.x, t * 2 * width, width, row.data());
      fk::store(args.out, t * width, width, row.data());
    }
  }
};
FK_OP(silu_and_mul, Half);

}  // namespace
FK_PLUGIN("c12_half", "0");
