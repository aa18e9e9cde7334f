// SPDX-License-Identifier: Apache-2.0
// l2_norm: x / max(|x|, eps) for each row, in two passes; the second reads from the cache.
#include "simd.hpp"

namespace fk::cpu {
struct L2Norm {
  const void* x;
  void* out;
  int64_t channels;
  float eps;
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(l2_norm, const L2Norm&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

void l2_norm(const L2Norm& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    for (int64_t t = begin; t < end; ++t) {
      const T* x = static_cast<const T*>(a.x) + t * a.channels;
      T* out = static_cast<T*>(a.out) + t * a.channels;
      Vf squares{};
      each_vector(a.channels, [&](int64_t i, auto n) {
        const Vf v = load(x + i, n);
        squares += v * v;
      });
      const float length = root(sum(squares));
      const float scale = 1.f / (length > a.eps ? length : a.eps);
      each_vector(a.channels,
                  [&](int64_t i, auto n) { store(out + i, load(x + i, n) * scale, n); });
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/l2_norm.h"
#include "op.hpp"

namespace fk::cpu {

struct L2NormOp {
  using op = fk::l2_norm;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
  }
  L2NormOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const L2Norm a{args.x->data, args.out->data, init_.hidden_size, static_cast<float>(init_.eps),
                   type_of(args.x)};
    split(threads_, rows(args.x), args.x->nbytes * 2,
          [&](int64_t begin, int64_t end, int) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::l2_norm) kernel_ = FK_CPU_PICK(l2_norm);
};
FK_OP(l2_norm, L2NormOp);

}  // namespace fk::cpu
#endif
