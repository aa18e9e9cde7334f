// SPDX-License-Identifier: Apache-2.0
// qk_rms_norm: RMSNorm of every head of q and k, in place, and the kernel of head_norm.hpp. Rows
// need not be adjacent: they may lie in a fused qkv projection.
#include "head_norm.hpp"
#include "simd.hpp"

namespace fk::cpu::FK_CPU_LEVEL {

template <class T, class W>
void head_norm_rows(const HeadNorm& a, int64_t begin, int64_t end) {
  const W* weight = static_cast<const W*>(a.weight);
  for (int64_t t = begin; t < end; ++t) {
    for (int64_t h = 0; h < a.heads; ++h) {
      T* x = static_cast<T*>(a.x) + t * a.token_stride + h * a.head_stride;
      Vf squares{};
      each_vector(a.width, [&](int64_t i, auto n) {
        const Vf v = load(x + i, n);
        squares += v * v;
      });
      const float scale = 1.f / root(sum(squares) / static_cast<float>(a.width) + a.eps);
      each_vector(a.width, [&](int64_t i, auto n) {
        store(x + i, load(x + i, n) * scale * load(weight + i, n), n);
      });
    }
  }
}

void head_norm(const HeadNorm& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.weight_type, [&]<class W>() { head_norm_rows<T, W>(a, begin, end); });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/qk_rms_norm.h"
#include "op.hpp"

namespace fk::cpu {

struct QkRmsNormOp {
  using op = fk::qk_rms_norm;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_float(max.q, "q: f32, bf16 or f16");
    need_float(max.k, "k: f32, bf16 or f16");
    need_float(weights.q_weight, "q_weight: f32, bf16 or f16");
    need_float(weights.k_weight, "k_weight: f32, bf16 or f16");
  }
  QkRmsNormOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const HeadNorm q = describe(args.q, weights_.q_weight), k = describe(args.k, weights_.k_weight);
    const int64_t tokens = args.q->shape[0];
    const int64_t bytes = 2 * tokens * init_.head_dim * (q.heads + k.heads) * bytes_of(q.type);
    split(threads_, tokens, bytes, [&](int64_t begin, int64_t end, int) {
      kernel_(q, begin, end);
      kernel_(k, begin, end);
    });
  }

 private:
  HeadNorm describe(const fk_inout* x, const fk_in* weight) const {
    return {x->data,
            weight->data,
            x->strides[0],
            x->strides[1],
            x->shape[1],
            init_.head_dim,
            static_cast<float>(init_.eps),
            type_of(x),
            type_of(weight)};
  }

  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::head_norm) kernel_ = FK_CPU_PICK(head_norm);
};
FK_OP(qk_rms_norm, QkRmsNormOp);

}  // namespace fk::cpu
#endif
