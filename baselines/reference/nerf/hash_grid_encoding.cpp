// SPDX-License-Identifier: Apache-2.0
// hash_grid_encoding: HashGrid of nerf.hpp, point by point.
#include "fk/ops/hash_grid_encoding.h"

#include "nerf.hpp"

namespace fk::reference {
namespace {

struct HashGridEncoding : Base<hash_grid_encoding> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward&,
                       fk_need& need) {
    need_floats(weights.table);
    if (HashGrid(init).rows != weights.table->shape[0])
      throw unsupported{"table: the rows of all levels"};
    need.scratch = (init.n_levels + 1) * init.n_features * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const HashGrid grid(init);
    Scratch scratch(ctx);
    double *row = scratch.take(grid.count * grid.features), *corner = scratch.take(grid.features);
    for (int64_t t = 0; t < args.positions->shape[0]; ++t) {
      grid.encode(weights.table, data<float>(args.positions) + 3 * t, row, corner);
      store(args.out, offset(args.out, t), grid.count * grid.features, row);
    }
  }
};
FK_OP(hash_grid_encoding, HashGridEncoding);

}  // namespace
}  // namespace fk::reference
