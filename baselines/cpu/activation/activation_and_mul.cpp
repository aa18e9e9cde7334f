// SPDX-License-Identifier: Apache-2.0
// activation_and_mul: a function of the first half of a row, times the second half.
#include "math.hpp"

namespace fk::cpu {
// In the order of FK_ACTIVATION_AND_MUL_KIND_...
enum class Gate : int { gelu, gelu_tanh, silu, relu, relu2, sigmoid };
struct ActivationAndMul {
  const void* x;
  void* out;
  int64_t size;  // columns of out; x has twice as many
  int type;
  Gate gate;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(activation_and_mul, const ActivationAndMul&, int64_t row, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// Columns [begin, end) of one row.
void activation_and_mul(const ActivationAndMul& a, int64_t row, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    const T* gate = static_cast<const T*>(a.x) + row * 2 * a.size + begin;
    const T* up = gate + a.size;
    T* out = static_cast<T*>(a.out) + row * a.size + begin;
    const auto each = [&](auto f) {
      each_vector(end - begin, [&](int64_t i, auto n) {
        store(out + i, f(load(gate + i, n)) * load(up + i, n), n);
      });
    };
    switch (a.gate) {
      case Gate::gelu:
        return each([](Vf v) { return gelu(v); });
      case Gate::gelu_tanh:
        return each([](Vf v) { return gelu_tanh(v); });
      case Gate::silu:
        return each([](Vf v) { return v * sigmoid(v); });
      case Gate::relu:
        return each([](Vf v) { return relu(v); });
      case Gate::relu2:
        return each([](Vf v) { return relu(v) * relu(v); });
      case Gate::sigmoid:
        return each([](Vf v) { return sigmoid(v); });
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/activation_and_mul.h"
#include "op.hpp"

namespace fk::cpu {

static_assert(int(Gate::gelu_tanh) == FK_ACTIVATION_AND_MUL_KIND_GELU_TANH);
static_assert(int(Gate::sigmoid) == FK_ACTIVATION_AND_MUL_KIND_SIGMOID);

struct ActivationAndMulOp {
  using op = fk::activation_and_mul;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
  }
  ActivationAndMulOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const ActivationAndMul a{args.x->data, args.out->data, init_.size, type_of(args.x),
                             static_cast<Gate>(init_.kind)};
    split_tiles(threads_, rows(args.x), init_.size, args.x->nbytes * 4,
                [&](int64_t row, int64_t begin, int64_t end) { kernel_(a, row, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::activation_and_mul) kernel_ = FK_CPU_PICK(activation_and_mul);
};
FK_OP(activation_and_mul, ActivationAndMulOp);

}  // namespace fk::cpu
#endif
