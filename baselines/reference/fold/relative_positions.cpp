// SPDX-License-Identifier: Apache-2.0
// relative_positions: a bin for each difference; zeros elsewhere.
#include "fk/ops/relative_positions.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct RelativePositions : Base<relative_positions> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.out);
    need.scratch = (4 * init.max_relative_idx + 2 * init.max_relative_chain + 7) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tokens = args.out->shape[0], width = args.out->shape[2];
    const int64_t near = init.max_relative_idx, copies = init.max_relative_chain;
    double* row = Scratch(ctx).take(width);
    const auto difference = [](const fk_in* of, int64_t i, int64_t j) {
      return int64_t{data<int32_t>(of)[i]} - data<int32_t>(of)[j];
    };
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t j = 0; j < tokens; ++j) {
        const int64_t residue = difference(args.residue_index, i, j);
        const bool chain = difference(args.asym_id, i, j) == 0;
        const bool entity = difference(args.entity_id, i, j) == 0;
        const auto bin = [&](const fk_in* of, bool same, int64_t most) {
          return same ? std::clamp(difference(of, i, j) + most, int64_t{0}, 2 * most)
                      : 2 * most + 1;
        };
        std::fill_n(row, width, 0.0);
        row[bin(args.residue_index, chain, near)] = 1;
        row[2 * near + 2 + bin(args.token_index, chain && residue == 0, near)] = 1;
        row[4 * near + 4] = entity ? 1 : 0;
        row[4 * near + 5 + bin(args.sym_id, entity, copies)] = 1;
        store(args.out, offset(args.out, i, j), width, row);
      }
    }
  }
};
FK_OP(relative_positions, RelativePositions);

}  // namespace
}  // namespace fk::reference
