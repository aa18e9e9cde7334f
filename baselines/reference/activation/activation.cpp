// SPDX-License-Identifier: Apache-2.0
// activation: applies the function of init.kind to every element.
#define FK_ACTIVATION_EDITION 2  // with the fields that the contract marks `since: 2`
#include "fk/ops/activation.h"
#include "image.hpp"

namespace fk::reference {
namespace {

struct Activation : Base<activation> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(max.x, max.out);
    if (init.kind == FK_ACTIVATION_KIND_XIELU && !weights.alpha_p.or_null)
      throw unsupported{"xielu without alpha_p and alpha_n"};
    need.scratch = init.size * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    double* x = Scratch(ctx).take(init.size);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) {
      load(args.x, offset(args.x, t), init.size, x);
      for (int64_t c = 0; c < init.size; ++c) x[c] = of(x[c]);
      store(args.out, offset(args.out, t), init.size, x);
    }
  }

 private:
  double of(double x) const {
    switch (init.kind) {
      case FK_ACTIVATION_KIND_RELU:
        return std::max(x, 0.0);
      case FK_ACTIVATION_KIND_RELU2:
        return std::max(x, 0.0) * std::max(x, 0.0);
      case FK_ACTIVATION_KIND_SILU:
        return silu(x);
      case FK_ACTIVATION_KIND_SIGMOID:
        return 1 / (1 + std::exp(-x));
      case FK_ACTIVATION_KIND_TANH:
        return std::tanh(x);
      case FK_ACTIVATION_KIND_QUICK_GELU:
        return x / (1 + std::exp(-1.702 * x));
      case FK_ACTIVATION_KIND_LOG_SIGMOID:
        return log_sigmoid(x);
      case FK_ACTIVATION_KIND_XIELU:
        return xielu(x);
      case FK_ACTIVATION_KIND_MISH:
        return mish(x);
      case FK_ACTIVATION_KIND_CLAMP:
        return std::clamp(x, -init.alpha, init.alpha);
      case FK_ACTIVATION_KIND_ASINH:
        return std::asinh(x);
      default:
        return init.alpha * std::tanh(x / init.alpha);
    }
  }
  double xielu(double x) const {
    if (x > 0) return x / 2 + value(*data<float>(weights.alpha_p)) * x * x;
    return x / 2 + value(*data<float>(weights.alpha_n)) * (std::expm1(std::min(x, -1e-6)) - x);
  }
};
FK_OP(activation, Activation);

}  // namespace
}  // namespace fk::reference
