// SPDX-License-Identifier: Apache-2.0
// wrong: columns beyond a multiple of 8 are without silu()
// hint: tail
// says: of every row
// next: Only the end is wrong. Check the tail that fills no vector, tile or block.
#include "../attacks/attack.hpp"

namespace {

struct Tail : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    for (int64_t t = 0; t < rows(args); ++t)
      for (int64_t c = width / 8 * 8; c < width; ++c) {
        float gate, up;
        fk::load(args.x, t * 2 * width + c, 1, &gate);
        fk::load(args.x, t * 2 * width + width + c, 1, &up);
        gate *= up;
        fk::store(args.out, t * width + c, 1, &gate);
      }
  }
};
FK_OP(silu_and_mul, Tail);

}  // namespace
FK_PLUGIN("wrong_tail", "0");
