// SPDX-License-Identifier: Apache-2.0
// gelu: with the error function (to float accuracy in both tails) or with tanh. math.hpp has both.
#include "math.hpp"

namespace fk::cpu {
struct Gelu {
  const void* x;
  void* out;
  int type, tanh;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(gelu_range, const Gelu&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

void gelu_range(const Gelu& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    const T* x = static_cast<const T*>(a.x) + begin;
    T* out = static_cast<T*>(a.out) + begin;
    if (a.tanh) {
      each_vector(end - begin,
                  [&](int64_t i, auto n) { store(out + i, gelu_tanh(load(x + i, n)), n); });
    } else {
      each_vector(end - begin, [&](int64_t i, auto n) { store(out + i, gelu(load(x + i, n)), n); });
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/gelu.h"
#include "op.hpp"

namespace fk::cpu {

struct GeluOp {
  using op = fk::gelu;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
  }
  GeluOp(const fk_host& host, const op::init& init, const op::weights&)
      : tanh_(init.approximate == FK_GELU_APPROXIMATE_TANH), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const Gelu a{args.x->data, args.out->data, type_of(args.x), tanh_};
    split_tiles(threads_, 1, fk_numel(args.x), args.x->nbytes * 8,
                [&](int64_t, int64_t begin, int64_t end) { kernel_(a, begin, end); });
  }

 private:
  const int tanh_, threads_;
  decltype(&generic::gelu_range) kernel_ = FK_CPU_PICK(gelu_range);
};
FK_OP(gelu, GeluOp);

}  // namespace fk::cpu
#endif
