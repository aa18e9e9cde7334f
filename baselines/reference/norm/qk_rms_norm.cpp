// SPDX-License-Identifier: Apache-2.0
// qk_rms_norm: an RMSNorm of every head of q and of k, in place.
#include "fk/ops/qk_rms_norm.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct QkRmsNorm : Base<qk_rms_norm> {
  using Base::Base;
  struct Rows {
    double *head, *weight;
    Rows(Scratch& s, const op::init& i) : head(s.take(i.head_dim)), weight(s.take(i.head_dim)) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.q_weight, weights.k_weight, max.q, max.k);
    need.scratch = scratch_bytes<Rows>(init);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init);
    normalize(args.q, weights.q_weight, row);
    normalize(args.k, weights.k_weight, row);
  }

 private:
  void normalize(const fk_inout* x, const fk_in* weight, const Rows& row) const {
    for (int64_t t = 0; t < x->shape[0]; ++t) {
      for (int64_t h = 0; h < x->shape[1]; ++h) {
        load(x, offset(x, t, h), init.head_dim, row.head);
        rms_normalize(row.head, init.head_dim, init.eps, weight, row.weight);
        store(x, offset(x, t, h), init.head_dim, row.head);
      }
    }
  }
};
FK_OP(qk_rms_norm, QkRmsNorm);

}  // namespace
}  // namespace fk::reference
