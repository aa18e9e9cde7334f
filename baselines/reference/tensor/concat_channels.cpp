// SPDX-License-Identifier: Apache-2.0
// concat_channels: copies the parts of each row one after the other.
#include "fk/ops/concat_channels.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct ConcatChannels : Base<concat_channels> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    int64_t all = 0;
    for (int64_t n = 0; n < init.num_parts; ++n) {
      need_floats(max.x->at[n]);
      all += init.sizes->at[n];
    }
    if (all != init.size) throw unsupported{"size: not the sum of sizes"};
    need_floats(max.out);
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* row = Scratch(ctx).take(init.size);
    for (int64_t t = 0; t < args.out->shape[0]; ++t) {
      double* at = row;
      for (int64_t n = 0; n < init.num_parts; ++n) {
        load(args.x->at[n], offset(args.x->at[n], t), init.sizes->at[n], at);
        at += init.sizes->at[n];
      }
      store(args.out, offset(args.out, t), init.size, row);
    }
  }
};
FK_OP(concat_channels, ConcatChannels);

}  // namespace
}  // namespace fk::reference
