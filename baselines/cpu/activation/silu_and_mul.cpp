// SPDX-License-Identifier: Apache-2.0
// silu_and_mul: silu of the first half of a row, times the second half.
#include "math.hpp"

namespace fk::cpu {
struct SiluAndMul {
  const void* x;
  void* out;
  int64_t size;  // columns of out; x has twice as many
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(silu_and_mul, const SiluAndMul&, int64_t row, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// Columns [begin, end) of one row.
void silu_and_mul(const SiluAndMul& a, int64_t row, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    const T* gate = static_cast<const T*>(a.x) + row * 2 * a.size + begin;
    const T* up = gate + a.size;
    T* out = static_cast<T*>(a.out) + row * a.size + begin;
    each_vector(end - begin, [&](int64_t i, auto n) {
      const Vf g = load(gate + i, n);
      store(out + i, g / (1.f + exp(-g)) * load(up + i, n), n);
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/silu_and_mul.h"
#include "op.hpp"

namespace fk::cpu {

struct SiluAndMulOp {
  using op = fk::silu_and_mul;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
  }
  SiluAndMulOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const SiluAndMul a{args.x->data, args.out->data, init_.size, type_of(args.x)};
    split_tiles(threads_, rows(args.x), init_.size, args.x->nbytes * 4,
                [&](int64_t row, int64_t begin, int64_t end) { kernel_(a, row, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::silu_and_mul) kernel_ = FK_CPU_PICK(silu_and_mul);
};
FK_OP(silu_and_mul, SiluAndMulOp);

}  // namespace fk::cpu
#endif
