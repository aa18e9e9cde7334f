// SPDX-License-Identifier: Apache-2.0
// vit_attention: image by image (image_attention() in vit.hpp).
#include "fk/ops/vit_attention.h"
#include "vit.hpp"

namespace fk::reference {
namespace {

struct VitAttention : Base<vit_attention> {
  using Base::Base;
  struct Rows {
    ImageAttentionRows attention;
    double *x, *out;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : attention(s, i, args.x->shape[1]),
          x(s.take(args.x->shape[1] * i.hidden_size)),
          out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_image_attention(init);
    need_floats(w.qkv, w.qkv_bias.or_null, w.o, w.o_bias.or_null, max.x, max.mask.or_null, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    for (int64_t b = 0; b < args.x->shape[0]; ++b) {
      for (int64_t t = 0; t < args.x->shape[1]; ++t)
        load(args.x, offset(args.x, b, t), init.hidden_size, rows.x + t * init.hidden_size);
      image_attention(init, weights, args, b, rows.x, rows.attention, rows.out,
                      [&](int64_t t, double* out) {
                        store(args.out, offset(args.out, b, t), init.hidden_size, out);
                      });
    }
  }
};
FK_OP(vit_attention, VitAttention);

}  // namespace
}  // namespace fk::reference
