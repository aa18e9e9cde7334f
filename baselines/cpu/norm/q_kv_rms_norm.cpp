// SPDX-License-Identifier: Apache-2.0
// q_kv_rms_norm: head_norm.hpp on the two latents of a token, q's and k/v's.
#ifdef FK_CPU_OPS
#include "fk/ops/q_kv_rms_norm.h"
#include "head_norm.hpp"
#include "op.hpp"

namespace fk::cpu {

struct QKvRmsNormOp {
  using op = fk::q_kv_rms_norm;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (weights.q_weight.or_null)
      need_float(weights.q_weight.or_null, "q_weight: f32, bf16 or f16");
    if (max.q.or_null && !weights.q_weight.or_null) throw unsupported{"q: with q_weight only"};
    need_float(weights.kv_weight, "kv_weight: f32, bf16 or f16");
    need_float(max.kv, "kv: f32, bf16 or f16");
  }
  QKvRmsNormOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const HeadNorm kv = describe(args.kv, weights_.kv_weight);
    HeadNorm q{};
    if (args.q.or_null) q = describe(args.q.or_null, weights_.q_weight.or_null);
    const int64_t tokens = args.kv->shape[0];
    split(threads_, tokens, 2 * tokens * (q.width + kv.width) * bytes_of(kv.type),
          [&](int64_t begin, int64_t end, int) {
            if (q.width > 0) kernel_(q, begin, end);
            kernel_(kv, begin, end);
          });
  }

 private:
  // One row per token: a single head, with head stride 0.
  HeadNorm describe(const fk_inout* x, const fk_in* weight) const {
    return {
        x->data,    weight->data,   x->strides[0], 0, 1, x->shape[1], static_cast<float>(init_.eps),
        type_of(x), type_of(weight)};
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::head_norm) kernel_ = FK_CPU_PICK(head_norm);
};
FK_OP(q_kv_rms_norm, QKvRmsNormOp);

}  // namespace fk::cpu
#endif
