// SPDX-License-Identifier: Apache-2.0
// wrong: rows beyond a multiple of 4 are without silu()
// hint: tail
// says: the last row
// next: Only the end is wrong. Check the tail that fills no vector, tile or block.
#include "../attacks/attack.hpp"

namespace {

struct TailRows : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    honest(args);
    const int64_t count = rows(args);
    for (int64_t t = count < 4 ? count : count / 4 * 4; t < count; ++t) {
      std::vector<float> row(static_cast<size_t>(2 * width));
      fk::load(args.x, t * 2 * width, 2 * width, row.data());
      for (int64_t c = 0; c < width; ++c)
        row[static_cast<size_t>(c)] *= row[static_cast<size_t>(c + width)];
      fk::store(args.out, t * width, width, row.data());
    }
  }
};
FK_OP(silu_and_mul, TailRows);

}  // namespace
FK_PLUGIN("wrong_tail_rows", "0");
