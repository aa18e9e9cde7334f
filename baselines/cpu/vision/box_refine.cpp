// SPDX-License-Identifier: Apache-2.0
// box_refine. sigmoid(delta + log(p / q)) = p / (p + q exp(-delta)), so no logarithm is needed.
#include "math.hpp"

namespace fk::cpu {
struct BoxRefine {
  const void *delta, *reference;
  void* out;
  float eps;
  int delta_type, type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(box_refine_range, const BoxRefine&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// Elements [begin, end).
void box_refine_range(const BoxRefine& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    with_type(a.delta_type, [&]<class D>() {
      const D* delta = static_cast<const D*>(a.delta) + begin;
      const T* reference = static_cast<const T*>(a.reference) + begin;
      T* out = static_cast<T*>(a.out) + begin;
      each_vector(end - begin, [&](int64_t i, auto n) {
        const Vf d = load(delta + i, n);
        const Vf r = max(splat(0), min(splat(1), load(reference + i, n)));
        const Vf p = max(r, splat(a.eps)), q = max(1.f - r, splat(a.eps));
        store(out + i, p / (p + q * exp(-d)), n);
      });
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/box_refine.h"
#include "op.hpp"

namespace fk::cpu {

struct BoxRefineOp {
  using op = fk::box_refine;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.delta, "delta: f32, bf16 or f16");
    need_float(max.reference, "reference: f32, bf16 or f16");
    need_same(max.reference, max.out, "out: of reference's type");
  }
  BoxRefineOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const BoxRefine a{args.delta->data,    args.reference->data,
                      args.out->data,      static_cast<float>(init_.eps),
                      type_of(args.delta), type_of(args.reference)};
    split_tiles(threads_, 1, fk_numel(args.reference), args.out->nbytes * 8,
                [&](int64_t, int64_t begin, int64_t end) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::box_refine_range) kernel_ = FK_CPU_PICK(box_refine_range);
};
FK_OP(box_refine, BoxRefineOp);

}  // namespace fk::cpu
#endif
