// SPDX-License-Identifier: Apache-2.0
// cross_attention: cross_attend() of cross.hpp for every token of every request.
#include "fk/ops/cross_attention.h"
#include "cross.hpp"

namespace fk::reference {
namespace {

struct CrossAttention : Base<cross_attention> {
  using Base::Base;
  struct Rows {
    CrossRows cross;
    double *x, *out;
    Rows(Scratch& s, const op::init& i)
        : cross(s, i), x(s.take(i.hidden_size)), out(s.take(i.hidden_size)) {}
  };
  static void supports(const op::init& init, const op::weights& w, const op::forward& max,
                       fk_need& need) {
    need_floats(w.q, w.q_bias.or_null, w.o, w.o_bias.or_null, max.x, max.source_k, max.source_v,
                max.out);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows rows(scratch, init);
    const CrossWeights cross{weights.q, weights.q_bias.or_null, weights.o, weights.o_bias.or_null};
    for (int64_t b = 0; b < args.state_slots->shape[0]; ++b) {
      const int64_t last = index<int32_t>(args.cu_seqlens, b + 1);
      for (int64_t t = index<int32_t>(args.cu_seqlens, b); t < last; ++t) {
        load(args.x, offset(args.x, t), init.hidden_size, rows.x);
        cross_attend(init, cross, args, b, rows.x, rows.cross, rows.out);
        store(args.out, offset(args.out, t), init.hidden_size, rows.out);
      }
    }
  }
};
FK_OP(cross_attention, CrossAttention);

}  // namespace
}  // namespace fk::reference
