// SPDX-License-Identifier: Apache-2.0
// squeeze_excite: image by image (SqueezeExcite in convnet.hpp).
#include "fk/ops/squeeze_excite.h"
#include "convnet.hpp"

namespace fk::reference {
namespace {

struct SqueezeExciteOp : Base<squeeze_excite> {
  using Base::Base;
  struct Rows {
    PixelMap x;
    SqueezeExcite part;
    Rows(Scratch& s, const op::init& i, const op::weights& w, const op::forward& args)
        : x(take_map(s, args.x->shape[1], args.x->shape[2], i.hidden_size)),
          part(s, i.hidden_size, i.squeezed_size,
               i.activation == FK_SQUEEZE_EXCITE_ACTIVATION_RELU ? PixelActivation::relu
                                                                 : PixelActivation::silu,
               w.squeeze, w.squeeze_bias, w.excite, w.excite_bias) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.squeeze, w.squeeze_bias, w.excite, w.excite_bias, max.x, max.out);
    need.scratch = scratch_bytes<Rows>(init, w, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, weights, args);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      load_map(args.x, b, rows.x);
      rows.part(rows.x);
      store_map(rows.x, nullptr, args.out, b);
    }
  }
};
FK_OP(squeeze_excite, SqueezeExciteOp);

}  // namespace
}  // namespace fk::reference
