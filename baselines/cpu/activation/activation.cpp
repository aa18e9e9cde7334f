// SPDX-License-Identifier: Apache-2.0
// activation: applies one function to every element, a vector of lanes at a time.
#include "math.hpp"

namespace fk::cpu {
// In the order of FK_ACTIVATION_KIND_...
enum class Function : int { relu, relu2, silu, sigmoid, tanh, quick_gelu, softcap, log_sigmoid };
struct Activation {
  const void* x;
  void* out;
  int type;
  Function function;
  float alpha;
};
}  // namespace fk::cpu
FK_CPU_KERNEL(activation_range, const Activation&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

void activation_range(const Activation& a, int64_t begin, int64_t end) {
  with_type(a.type, [&]<class T>() {
    const T* x = static_cast<const T*>(a.x) + begin;
    T* out = static_cast<T*>(a.out) + begin;
    const auto each = [&](auto f) {
      each_vector(end - begin, [&](int64_t i, auto n) { store(out + i, f(load(x + i, n)), n); });
    };
    switch (a.function) {
      case Function::relu:
        return each([](Vf v) { return relu(v); });
      case Function::relu2:
        return each([](Vf v) { return relu(v) * relu(v); });
      case Function::silu:
        return each([](Vf v) { return v * sigmoid(v); });
      case Function::sigmoid:
        return each([](Vf v) { return sigmoid(v); });
      case Function::tanh:
        return each([](Vf v) { return tanh(v); });
      case Function::quick_gelu:
        return each([](Vf v) { return v * sigmoid(v * 1.702f); });
      case Function::softcap:
        return each([&](Vf v) { return tanh(v / a.alpha) * a.alpha; });
      case Function::log_sigmoid:
        return each([](Vf v) { return log_sigmoid(v); });
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#include "fk/ops/activation.h"
#include "op.hpp"

namespace fk::cpu {

static_assert(int(Function::relu2) == FK_ACTIVATION_KIND_RELU2);
static_assert(int(Function::softcap) == FK_ACTIVATION_KIND_SOFTCAP);
static_assert(int(Function::log_sigmoid) == FK_ACTIVATION_KIND_LOG_SIGMOID);

struct ActivationOp {
  using op = fk::activation;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
  }
  ActivationOp(const fk_host& host, const op::init& init, const op::weights&)
      : init_(init), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const Activation a{args.x->data, args.out->data, type_of(args.x),
                       static_cast<Function>(init_.kind), static_cast<float>(init_.alpha)};
    split_tiles(threads_, 1, fk_numel(args.x), args.x->nbytes * 8,
                [&](int64_t, int64_t begin, int64_t end) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const int threads_;
  decltype(&generic::activation_range) kernel_ = FK_CPU_PICK(activation_range);
};
FK_OP(activation, ActivationOp);

}  // namespace fk::cpu
#endif
