// SPDX-License-Identifier: Apache-2.0
// edge_residual: two convolutions with their norms (ConvNorm in image.hpp), plus x.
#include "fk/ops/edge_residual.h"
#include "convnet.hpp"

namespace fk::reference {
namespace {

struct EdgeResidual : Base<edge_residual> {
  using Base::Base;
  struct Rows {
    PixelMap x, middle, out;
    ConvNorm expand, project;
    Rows(Scratch& s, const op::init& i, const op::weights& w, const op::forward& args)
        : x(take_map(s, args.x->shape[1], args.x->shape[2], i.in_channels)),
          middle(take_map(s, args.out->shape[1], args.out->shape[2], i.middle_channels)),
          out(take_map(s, args.out->shape[1], args.out->shape[2], i.out_channels)),
          expand(conv_norm(s, centred(i.kernel_size, i.stride), 1, i.in_channels, i.middle_channels,
                           FK_CONV_NORM(w, expand), i.eps,
                           static_cast<PixelActivation>(i.activation))),
          project(conv_norm(s, centred(1, 1), 1, i.middle_channels, i.out_channels,
                            FK_CONV_NORM(w, project), i.eps, PixelActivation::none)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    if (init.kernel_size % 2 == 0) throw unsupported{"kernel_size: even"};
    need_floats(FK_CONV_NORM(w, expand));
    need_floats(FK_CONV_NORM(w, project));
    need_floats(max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init, w, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, weights, args);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load_map(args.x, b, rows.x);
      rows.expand(rows.x, rows.middle);
      rows.project(rows.middle, rows.out);
      store_map(rows.out, init.residual ? &rows.x : nullptr, args.out, b);
    }
  }
};
FK_OP(edge_residual, EdgeResidual);

}  // namespace
}  // namespace fk::reference
