// SPDX-License-Identifier: Apache-2.0
// rms_norm: two passes over a row; the second reads from the first-level cache. With a residual,
// the sum stays in float32 between the passes, so only outputs are rounded.
#include "simd.hpp"

namespace fk::cpu {
// Arguments of one call; null: absent.
struct RmsNorm {
  const void *x, *weight;
  void *residual, *out;
  int64_t channels;
  float eps;
  int type, weight_type, residual_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(rms_norm, const RmsNorm&, int64_t begin, int64_t end, float* row)

namespace fk::cpu::FK_CPU_LEVEL {

template <class T, class W, class R>
void rms_norm_rows(const RmsNorm& a, int64_t begin, int64_t end, float* row) {
  const int64_t c = a.channels;
  const W* weight = static_cast<const W*>(a.weight);
  for (int64_t t = begin; t < end; ++t) {
    const T* x = static_cast<const T*>(a.x) + t * c;
    R* residual = a.residual ? static_cast<R*>(a.residual) + t * c : nullptr;
    T* out = static_cast<T*>(a.out) + t * c;
    Vf squares{};
    each_vector(c, [&](int64_t i, auto n) {
      Vf v = load(x + i, n);
      if (residual) {
        v += load(residual + i, n);
        store(residual + i, v, n);
        store(row + i, v, n);
      }
      squares += v * v;
    });
    const float scale = 1.f / root(sum(squares) / static_cast<float>(c) + a.eps);
    each_vector(c, [&](int64_t i, auto n) {
      Vf v = (residual ? load(row + i, n) : load(x + i, n)) * scale;
      if (weight) v *= load(weight + i, n);
      store(out + i, v, n);
    });
  }
}

void rms_norm(const RmsNorm& a, int64_t begin, int64_t end, float* row) {
  with_type(a.type, [&]<class T>() {
    with_type(a.weight_type, [&]<class W>() {
      if (a.residual_type == a.type)
        rms_norm_rows<T, W, T>(a, begin, end, row);
      else
        rms_norm_rows<T, W, float>(a, begin, end, row);
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/rms_norm.h"
#include "op.hpp"

namespace fk::cpu {

struct RmsNormOp {
  using op = fk::rms_norm;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_float(max.x, "x: f32, bf16 or f16");
    if (weights.weight.or_null) need_float(weights.weight.or_null, "weight: f32, bf16 or f16");
    if (max.residual.or_null && FK_DTYPE(max.residual.or_null) != FK_F32)
      need_same(max.x, max.residual.or_null, "residual: float32 or of x's type");
    if (max.residual.or_null) need.scratch = threads_max() * padded(init.hidden_size) * 4;
  }
  RmsNormOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx& ctx) {
    const RmsNorm a{args.x->data,
                    data<void>(weights_.weight),
                    data<void>(args.residual),
                    args.out->data,
                    init_.hidden_size,
                    static_cast<float>(init_.eps),
                    type_of(args.x),
                    type_or_f32(weights_.weight),
                    args.residual.or_null ? type_of(args.residual.or_null) : type_of(args.x)};
    const int64_t bytes = args.x->nbytes * (a.residual ? 4 : 2);
    split(threads_, rows(args.x), bytes, [&](int64_t begin, int64_t end, int thread) {
      kernel_(a, begin, end, static_cast<float*>(ctx.scratch) + thread * padded(init_.hidden_size));
    });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::rms_norm) kernel_ = FK_CPU_PICK(rms_norm);
};
FK_OP(rms_norm, RmsNormOp);

}  // namespace fk::cpu
#endif
