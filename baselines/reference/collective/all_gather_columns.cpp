// SPDX-License-Identifier: Apache-2.0
// all_gather_columns: every rank shares its x (Ranked in collective.hpp); each then assembles the
// rows from the columns of all ranks.
#include "fk/ops/all_gather_columns.h"
#include "collective.hpp"

namespace fk::reference {
namespace {

struct AllGatherColumns : Ranked<all_gather_columns> {
  using Ranked::Ranked;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_comm(init.comm);
    need_floats(max.x, max.out);
    if (init.out_features > init.comm->size * max.x->shape[1])
      throw unsupported{"out_features: more columns than the ranks have"};
    need_buffer(init.comm, max.x->nbytes, need);
  }
  void prepare(const op::forward& max, const fk_memory& memory) {
    make_buffer(max.x->nbytes, memory);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t rows = args.x->shape[0], columns = args.x->shape[1];
    const int64_t width = args.x->dtype.bits / 8, all = init.out_features;
    if (args.x->nbytes)
      std::memcpy(mine<char>(), args.x->data, static_cast<size_t>(args.x->nbytes));
    share(ctx, args.x->nbytes);
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t r = 0; r < comm()->size && r * columns < all; ++r) {
        const int64_t here = std::min(columns, all - r * columns);
        std::memcpy(static_cast<char*>(args.out->data) + (m * all + r * columns) * width,
                    shared_by<char>(r) + m * columns * width, static_cast<size_t>(here * width));
      }
    }
    done(ctx);
  }
};
FK_OP(all_gather_columns, AllGatherColumns);

}  // namespace
}  // namespace fk::reference
