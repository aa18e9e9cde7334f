// SPDX-License-Identifier: Apache-2.0
// cross_entropy_backward: log_sum.hpp for a row, then its probabilities; the second pass reads from
// the cache.
#include "log_sum.hpp"
#include "math.hpp"

namespace fk::cpu {
struct RowGradient {
  const void* logits;
  void* out;
  int64_t vocabulary, target;
  float grad, top, total;
  int type, out_type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(cross_entropy_row, const RowGradient&)

namespace fk::cpu::FK_CPU_LEVEL {

void cross_entropy_row(const RowGradient& a) {
  with_type(a.type, [&]<class T>() {
    with_type(a.out_type, [&]<class O>() {
      const T* x = static_cast<const T*>(a.logits);
      O* out = static_cast<O*>(a.out);
      const float scale = a.grad / a.total;
      each_vector(a.vocabulary, [&](int64_t i, auto n) {
        store(out + i, exp(load(x + i, n) - a.top) * scale, n);
      });
      // The vector with the target, whose lane is written again.
      Vf v = splat(to_float(x[a.target]));
      v = exp(v - a.top) * scale - a.grad;
      store(out + a.target, v, int64_t{1});
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/cross_entropy_backward.h"
#include "op.hpp"

namespace fk::cpu {

struct CrossEntropyBackwardOp {
  using op = fk::cross_entropy_backward;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.logits, "logits: f32, bf16 or f16");
    need_float(max.out, "out: f32, bf16 or f16");
  }
  CrossEntropyBackwardOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int type = type_of(args.logits), out_type = type_of(args.out);
    const int64_t width = init_.vocab_size;
    // Eight times the bytes, because arithmetic dominates.
    share(threads_, args.logits->shape[0], args.logits->nbytes * 8, [&](int64_t t, int) {
      RowGradient a{data<char>(args.logits) + t * width * bytes_of(type),
                    data<char>(args.out) + t * width * bytes_of(out_type),
                    width,
                    data<int64_t>(args.targets)[t],
                    data<float>(args.grad)[t],
                    0,
                    0,
                    type,
                    out_type};
      log_sum_({a.logits, width, type}, &a.top, &a.total);
      kernel_(a);
    });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::log_sum) log_sum_ = FK_CPU_PICK(log_sum);
  decltype(&generic::cross_entropy_row) kernel_ = FK_CPU_PICK(cross_entropy_row);
};
FK_OP(cross_entropy_backward, CrossEntropyBackwardOp);

}  // namespace fk::cpu
#endif
