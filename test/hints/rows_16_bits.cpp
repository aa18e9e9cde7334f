// SPDX-License-Identifier: Apache-2.0
// wrong: rows have an index of 16 bits
// hint: index_overflow
// says: tokens from 65536 on are wrong: their index does not fit in 16 bits
// bench: --size range --case rows
// next: Hold indices in 32 bits, and products of indices in 64. On a GPU, the second and third
// dimension of a grid end at 65535.
#include "../attacks/attack.hpp"

namespace {

struct Rows16Bits : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    for (int64_t t = 0; t < rows(args); ++t) {
      const auto row = static_cast<uint16_t>(t);
      attack::silu_rows(args.x, args.out, width, row, row + 1);
    }
  }
};
FK_OP(silu_and_mul, Rows16Bits);

}  // namespace
FK_PLUGIN("wrong_rows_16_bits", "0");
