// SPDX-License-Identifier: Apache-2.0
// silu_and_mul, gelu, swiglu_oai, activation, activation_and_mul, box_refine: one thread per element of the output.
#include "common.cuh"
#define FK_ACTIVATION_EDITION 2
#include "fk/ops/activation.h"
#include "fk/ops/activation_and_mul.h"
#include "fk/ops/box_refine.h"
#include "fk/ops/gelu.h"
#include "fk/ops/silu_and_mul.h"
#include "fk/ops/swiglu_oai.h"

namespace {
using namespace fkr;

struct SiluAndMul : Plain<fk::silu_and_mul> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const int64_t width = init.size;
    for_each(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t row = i / width * 2 * width, c = i % width;
      const double gate = load(x, row + c), up = load(x, row + width + c);
      store(out, i, silu(gate) * up);
    });
  }
};
// Activations by number. The two contracts have different lists.
enum class Of { relu, relu2, silu, sigmoid, tanh, quick_gelu, softcap, gelu, gelu_tanh, log_sigmoid, xielu, mish, clamp, asinh };
__device__ double apply(Of f, double x, double alpha) {
  switch (f) {
    case Of::relu: return x > 0 ? x : 0;
    case Of::relu2: return x > 0 ? x * x : 0;
    case Of::silu: return silu(x);
    case Of::sigmoid: return 1 / (1 + exp(-x));
    case Of::tanh: return tanh(x);
    case Of::quick_gelu: return x / (1 + exp(-1.702 * x));
    case Of::softcap: return alpha * tanh(x / alpha);
    case Of::log_sigmoid: return fmin(x, 0.0) - log1p(exp(-fabs(x)));
    case Of::xielu: break;  // it has weights
    case Of::mish: return mish(x);
    case Of::clamp: return fmin(fmax(x, -alpha), alpha);
    case Of::asinh: return asinh(x);
    case Of::gelu: return 0.5 * x * erfc(-x * 0.70710678118654752440);
    case Of::gelu_tanh: return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
  }
  return x;
}
struct Activation : Plain<fk::activation> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights& weights, const op::forward&, fk_need&) {
    if (init.kind == FK_ACTIVATION_KIND_XIELU && !weights.alpha_p.or_null) throw fk::unsupported{"xielu without alpha_p and alpha_n"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    if (init.kind == FK_ACTIVATION_KIND_XIELU) {
      const auto *alpha_p = fk::data<float>(weights.alpha_p), *alpha_n = fk::data<float>(weights.alpha_n);
      for_each(a.x->shape[0] * init.size, ctx, [=] __device__(int64_t i) {
        const double v = load(x, i);
        store(out, i, v / 2 + (v > 0 ? double(*alpha_p) * v * v : double(*alpha_n) * (expm1(fmin(v, -1e-6)) - v)));
      });
      return;
    }
    constexpr Of kOf[] = {Of::relu, Of::relu2, Of::silu, Of::sigmoid, Of::tanh, Of::quick_gelu, Of::softcap, Of::log_sigmoid, Of::xielu, Of::mish, Of::clamp, Of::asinh};
    const Of f = kOf[init.kind];
    const double alpha = init.alpha;
    for_each(a.x->shape[0] * init.size, ctx, [=] __device__(int64_t i) { store(out, i, apply(f, load(x, i), alpha)); });
  }
};
struct ActivationAndMul : Plain<fk::activation_and_mul> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    constexpr Of kOf[] = {Of::gelu, Of::gelu_tanh, Of::silu, Of::relu, Of::relu2, Of::sigmoid};
    const Of f = kOf[init.kind];
    const int64_t width = init.size;
    for_each(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) {
      const int64_t row = i / width * 2 * width, c = i % width;
      store(out, i, apply(f, load(x, row + c), 1) * load(x, row + width + c));
    });
  }
};
struct Gelu : Plain<fk::gelu> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const bool tanh_form = init.approximate == FK_GELU_APPROXIMATE_TANH;
    for_each(a.x->shape[0] * init.size, ctx, [=] __device__(int64_t i) {
      const double v = load(x, i);
      const double inner = 0.79788456080286535588 * (v + 0.044715 * v * v * v);
      store(out, i, tanh_form ? 0.5 * v * (1 + tanh(inner)) : 0.5 * v * erfc(-v * 0.70710678118654752440));
    });
  }
};
struct SwigluOai : Plain<fk::swiglu_oai> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref x = ref(a.x), out = ref(a.out);
    const int64_t width = init.size;
    const double alpha = init.alpha, limit = init.limit;
    for_each(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) {
      double gate = load(x, 2 * i), up = load(x, 2 * i + 1);  // neighbours
      if (gate > limit) gate = limit;
      if (up > limit) up = limit;
      if (up < -limit) up = -limit;
      store(out, i, (up + 1) * gate / (1 + exp(-alpha * gate)));
    });
  }
};
struct BoxRefine : Plain<fk::box_refine> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref delta = ref(a.delta), reference = ref(a.reference), out = ref(a.out);
    const double eps = init.eps;
    for_each(a.reference->shape[0] * init.size, ctx, [=] __device__(int64_t i) {
      const double r = fmin(fmax(load(reference, i), 0.0), 1.0);
      store(out, i, 1 / (1 + exp(-load(delta, i) - log(fmax(r, eps) / fmax(1 - r, eps)))));
    });
  }
};
FK_OP(box_refine, BoxRefine);
FK_OP(silu_and_mul, SiluAndMul);
FK_OP(activation, Activation);
FK_OP(activation_and_mul, ActivationAndMul);
FK_OP(gelu, Gelu);
FK_OP(swiglu_oai, SwigluOai);

}  // namespace
