// SPDX-License-Identifier: Apache-2.0
// silu_and_mul_backward: the gradients of gate and up, element by element.
#include "math.hpp"

namespace fk::cpu {
struct SiluAndMulBackward {
  const void *x, *grad;
  void* out;
  int64_t size;  // columns of grad; x and out have twice as many
  int type;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(silu_and_mul_backward, const SiluAndMulBackward&, int64_t row, int64_t begin,
              int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// Columns [begin, end) of one row.
void silu_and_mul_backward(const SiluAndMulBackward& a, int64_t row, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    const T* gate = static_cast<const T*>(a.x) + row * 2 * a.size + begin;
    const T* grad = static_cast<const T*>(a.grad) + row * a.size + begin;
    T* out = static_cast<T*>(a.out) + row * 2 * a.size + begin;
    each_vector(end - begin, [&](int64_t i, auto n) {
      const Vf g = load(gate + i, n), up = load(gate + a.size + i, n), d = load(grad + i, n);
      // 1 - s, without a difference of numbers near 1.
      const Vf s = sigmoid(g), rest = sigmoid(-g);
      store(out + i, d * up * s * (1.f + g * rest), n);
      store(out + a.size + i, d * g * s, n);
    });
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/silu_and_mul_backward.h"
#include "op.hpp"

namespace fk::cpu {

struct SiluAndMulBackwardOp {
  using op = fk::silu_and_mul_backward;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.grad, "grad: of x's type");
    need_same(max.x, max.out, "out: of x's type");
  }
  SiluAndMulBackwardOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const SiluAndMulBackward a{args.x->data, args.grad->data, args.out->data, init_.size,
                               type_of(args.x)};
    split_tiles(threads_, rows(args.grad), init_.size, args.x->nbytes * 5,
                [&](int64_t row, int64_t begin, int64_t end) { kernel_(a, row, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::silu_and_mul_backward) kernel_ = FK_CPU_PICK(silu_and_mul_backward);
};
FK_OP(silu_and_mul_backward, SiluAndMulBackwardOp);

}  // namespace fk::cpu
#endif
