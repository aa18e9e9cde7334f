// SPDX-License-Identifier: Apache-2.0
// activation: applies one function to every element, a vector of lanes at a time.
#include "math.hpp"

namespace fk::cpu {
// In the order of FK_ACTIVATION_KIND_...
enum class Function : int {
  relu,
  relu2,
  silu,
  sigmoid,
  tanh,
  quick_gelu,
  softcap,
  log_sigmoid,
  xielu,
  mish,
  clamp,
  asinh
};
struct Activation {
  const void* x;
  void* out;
  int type;
  Function function;
  float alpha;
  float alpha_p, alpha_n;  // of xielu
};
}  // namespace fk::cpu
FK_CPU_KERNEL(activation_range, const Activation&, int64_t begin, int64_t end)

namespace fk::cpu::FK_CPU_LEVEL {

// exp(x) - 1 - x, by its series where the terms cancel.
FK_INLINE Vf exp_beyond_linear(Vf x) {
  Vf p = splat(1.f / 40320);
  constexpr float kTerms[] = {1.f / 5040, 1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, 1.f / 2};
  for (const float term : kTerms) p = p * x + term;
  const Vf series = x * x * p;
  return x > splat(-0.5f) ? series : exp(x) - 1.f - x;
}

// Lane by lane: it is for a few features of a model, and its sum of logarithms would cancel.
FK_INLINE Vf asinh_of(Vf x) {
  Vf out = x;
  for (int lane = 0; lane < kLanes; ++lane) out[lane] = __builtin_asinhf(x[lane]);
  return out;
}

// In the contract the exponent is at most -1e-6, so numbers above it have no quadratic term.
FK_INLINE Vf xielu(Vf x, float alpha_p, float alpha_n) {
  const Vf negative = x < splat(-1e-6f) ? exp_beyond_linear(x) : -1e-6f - x;
  return x * 0.5f + (x > splat(0.f) ? x * x * alpha_p : negative * alpha_n);
}

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
      case Function::xielu:
        return each([&](Vf v) { return xielu(v, a.alpha_p, a.alpha_n); });
      case Function::mish:
        return each([](Vf v) { return mish(v); });
      case Function::clamp:
        return each([&](Vf v) { return max(splat(-a.alpha), min(splat(a.alpha), v)); });
      case Function::asinh:
        return each([](Vf v) { return asinh_of(v); });
    }
  });
}

}  // namespace fk::cpu::FK_CPU_LEVEL

#ifdef FK_CPU_OPS
#define FK_ACTIVATION_EDITION 2  // with the fields that the contract marks `since: 2`
#include "fk/ops/activation.h"
#include "op.hpp"

namespace fk::cpu {

static_assert(int(Function::relu2) == FK_ACTIVATION_KIND_RELU2);
static_assert(int(Function::softcap) == FK_ACTIVATION_KIND_SOFTCAP);
static_assert(int(Function::log_sigmoid) == FK_ACTIVATION_KIND_LOG_SIGMOID);
static_assert(int(Function::xielu) == FK_ACTIVATION_KIND_XIELU);
static_assert(int(Function::clamp) == FK_ACTIVATION_KIND_CLAMP);
static_assert(int(Function::asinh) == FK_ACTIVATION_KIND_ASINH);

struct ActivationOp {
  using op = fk::activation;
  static constexpr fk_claims claims = cpu_claims;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (init.kind == FK_ACTIVATION_KIND_XIELU && !weights.alpha_p.or_null)
      throw unsupported{"xielu without alpha_p and alpha_n"};
    need_float(max.x, "x: f32, bf16 or f16");
    need_same(max.x, max.out, "out: of x's type");
  }
  ActivationOp(const fk_host& host, const op::init& init, const op::weights& weights)
      : init_(init), weights_(weights), threads_(threads_of(host)) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    Activation a{args.x->data,
                 args.out->data,
                 type_of(args.x),
                 static_cast<Function>(init_.kind),
                 static_cast<float>(init_.alpha),
                 0,
                 0};
    if (weights_.alpha_p.or_null) {
      a.alpha_p = *data<float>(weights_.alpha_p);
      a.alpha_n = *data<float>(weights_.alpha_n);
    }
    split_tiles(threads_, 1, fk_numel(args.x), args.x->nbytes * 8,
                [&](int64_t, int64_t begin, int64_t end) { kernel_(a, begin, end); });
  }

 private:
  const op::init& init_;
  const op::weights& weights_;
  const int threads_;
  decltype(&generic::activation_range) kernel_ = FK_CPU_PICK(activation_range);
};
FK_OP(activation, ActivationOp);

}  // namespace fk::cpu
#endif
