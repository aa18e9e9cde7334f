// SPDX-License-Identifier: Apache-2.0
// repvgg_block: two convolutions of one image with their norms (ConvNorm in image.hpp), and an
// activation of the sum (RepVgg in convnet.hpp).
#include "fk/ops/repvgg_block.h"
#include "convnet.hpp"

namespace fk::reference {
namespace {

struct RepvggBlock : Base<repvgg_block> {
  using Base::Base;
  struct Rows {
    PixelMap x, out, other;
    RepVgg block;
    Rows(Scratch& s, const op::init& i, const op::weights& w, const op::forward& args)
        : x(take_map(s, args.x->shape[1], args.x->shape[2], i.channels)),
          out(take_map(s, x.height, x.width, i.channels)),
          other(take_map(s, x.height, x.width, i.channels)),
          block(s, i.channels, FK_CONV_NORM(w, wide), FK_CONV_NORM(w, point), i.eps,
                static_cast<PixelActivation>(i.activation)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(FK_CONV_NORM(w, wide));
    need_floats(FK_CONV_NORM(w, point));
    need_floats(max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init, w, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, weights, args);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load_map(args.x, b, rows.x);
      rows.block(rows.x, rows.other, rows.out);
      store_map(rows.out, nullptr, args.out, b);
    }
  }
};
FK_OP(repvgg_block, RepvggBlock);

}  // namespace
}  // namespace fk::reference
