// SPDX-License-Identifier: Apache-2.0
// serialized_attention: patch_attention() of point.hpp between its products.
#include "fk/ops/serialized_attention.h"

#include "point.hpp"

namespace fk::reference {
namespace {

struct SerializedAttention : Base<serialized_attention> {
  using Base::Base;
  struct Rows : PatchRows {
    double *in, *out;
    Rows(Scratch& s, const op::init& init, const op::forward& args)
        : PatchRows(s, args.x->shape[0], init.patch_size, init.hidden_size),
          in(s.take(init.hidden_size)),
          out(s.take(init.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.qkv, max.x, max.out);
    need_patch_attention(init);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init, args);
    const int64_t channels = init.hidden_size;
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), channels, rows.in);
      patch_products(weights, t, channels, rows.in, rows);
    }
    patch_attention(init, args, rows, [&](int64_t t, const double* heads) {
      matrix_vector(weights.proj, 0, channels, channels, weights.proj_bias.or_null, heads,
                    rows.out);
      store(args.out, offset(args.out, t), channels, rows.out);
    });
  }
};
FK_OP(serialized_attention, SerializedAttention);

}  // namespace
}  // namespace fk::reference
