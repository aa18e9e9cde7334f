// SPDX-License-Identifier: Apache-2.0
// rms_norm_backward: two passes over a row; the second reads from the first-level cache.
#include "simd.hpp"

namespace fk::cpu {
// Arguments of one call; weight is null if it is absent.
struct RmsNormBackward {
  const void *x, *grad, *weight;
  void* out;
  int64_t channels;
  float eps;
  int type, weight_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(rms_norm_backward, const RmsNormBackward&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

void rms_norm_backward(const RmsNormBackward& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.weight_type, [&]<class W>() {
      const int64_t c = a.channels;
      const W* weight = static_cast<const W*>(a.weight);
      for (int64_t t = begin; t < end; ++t) {
        const T* x = static_cast<const T*>(a.x) + t * c;
        const T* grad = static_cast<const T*>(a.grad) + t * c;
        T* out = static_cast<T*>(a.out) + t * c;
        const auto scaled = [&](int64_t i, auto n) {
          const Vf g = load(grad + i, n);
          return weight ? g * load(weight + i, n) : g;
        };
        Vf squares{}, along{};
        each_vector(c, [&](int64_t i, auto n) {
          const Vf v = load(x + i, n);
          squares += v * v;
          along += v * scaled(i, n);
        });
        const float width = static_cast<float>(c);
        const float scale = 1.f / root(sum(squares) / width + a.eps);
        const float share = scale * scale * (sum(along) / width);
        each_vector(c, [&](int64_t i, auto n) {
          store(out + i, (scaled(i, n) - load(x + i, n) * share) * scale, n);
        });
      }
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/rms_norm_backward.h"
#include "op.hpp"

namespace fk::cpu {

struct RmsNormBackwardOp {
  using op = fk::rms_norm_backward;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.grad, "grad: of x's type");
    need_same(max.x, max.out, "out: of x's type");
    if (weights.weight.or_null) need_float(weights.weight.or_null, "weight: f32, bf16 or f16");
  }
  RmsNormBackwardOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const RmsNormBackward a{args.x->data,
                            args.grad->data,
                            data<void>(weights_.weight),
                            args.out->data,
                            init_.hidden_size,
                            static_cast<float>(init_.eps),
                            type_of(args.x),
                            type_or_f32(weights_.weight)};
    split(threads_, rows(args.x), args.x->nbytes * 3,
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::rms_norm_backward) kernel_ = FK_CPU_PICK(rms_norm_backward);
};
FK_OP(rms_norm_backward, RmsNormBackwardOp);

}  // namespace fk::cpu
#endif
