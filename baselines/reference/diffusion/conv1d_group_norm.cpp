// SPDX-License-Identifier: Apache-2.0
// conv1d_group_norm: LineBlock of line_block.hpp, line by line.
#include "fk/ops/conv1d_group_norm.h"
#include "line_block.hpp"

namespace fk::reference {
namespace {

struct Conv1dGroupNorm : Base<conv1d_group_norm> {
  using Base::Base;
  struct Rows {
    PixelMap x, out;
    LineBlock block;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(take_line(s, args.x->shape[1], i.in_channels)),
          out(take_line(s, args.x->shape[1], i.out_channels)),
          block(s, i.in_channels, i.out_channels, i.kernel_size, i.n_groups, i.eps) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.weight, w.bias, w.norm_weight, w.norm_bias, max.x, max.out);
    need_line(init.kernel_size, init.out_channels, init.n_groups);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    Rows rows(scratch, init, args);
    rows.block.read(weights.weight, weights.bias, weights.norm_weight, weights.norm_bias);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load(args.x, offset(args.x, b), rows.x.width * rows.x.channels, rows.x.at);
      rows.block(rows.x, rows.out);
      store(args.out, offset(args.out, b), rows.out.width * rows.out.channels, rows.out.at);
    }
  }
};
FK_OP(conv1d_group_norm, Conv1dGroupNorm);

}  // namespace
}  // namespace fk::reference
