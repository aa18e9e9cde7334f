// SPDX-License-Identifier: Apache-2.0
// neighbor_table: pair by pair.
#include "fk/ops/neighbor_table.h"

#include "op.hpp"

namespace fk::reference {
namespace {

struct NeighborTable : Base<neighbor_table> {
  using Base::Base;
  static void supports(const op::init&, const op::weights&, const op::forward&, fk_need&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t most = args.pairs->shape[1], outputs = init.num_outputs;
    std::fill_n(data<int32_t>(args.table), fk_numel(fk_as_in(args.table)), -1);
    for (int64_t k = 0; k < args.pairs->shape[0]; ++k) {
      const int32_t* pair = data<int32_t>(args.pairs) + 2 * k * most;
      for (int64_t i = 0; i < index<int32_t>(args.pair_counts, k); ++i, pair += 2) {
        int32_t& to = data<int32_t>(args.table)[k * outputs + pair[1]];
        to = std::max(to, pair[0]);
      }
    }
  }
};
FK_OP(neighbor_table, NeighborTable);

}  // namespace
}  // namespace fk::reference
