// SPDX-License-Identifier: Apache-2.0
// q_kv_rms_norm: an RMSNorm of each row of q and of kv, in place.
#include "fk/ops/q_kv_rms_norm.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct QKvRmsNorm : Base<q_kv_rms_norm> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.q_weight.or_null, max.q.or_null);
    need_floats(weights.kv_weight, max.kv);
    need.scratch = 2 * std::max(init.q_lora_rank, init.kv_lora_rank) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* rows = Scratch(ctx).take(2 * std::max(init.q_lora_rank, init.kv_lora_rank));
    if (args.q.or_null) normalize(args.q.or_null, weights.q_weight.or_null, rows);
    normalize(args.kv, weights.kv_weight, rows);
  }

 private:
  void normalize(const fk_inout* x, const fk_in* weight, double* rows) const {
    const int64_t width = x->shape[1];
    for (int64_t t = 0; t < x->shape[0]; ++t) {
      load(x, offset(x, t), width, rows);
      rms_normalize(rows, width, init.eps, weight, rows + width);
      store(x, offset(x, t), width, rows);
    }
  }
};
FK_OP(q_kv_rms_norm, QKvRmsNorm);

}  // namespace
}  // namespace fk::reference
