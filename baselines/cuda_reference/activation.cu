// SPDX-License-Identifier: Apache-2.0
// silu_and_mul, gelu, swiglu_oai: one thread per element of the output.
#include "common.cuh"
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
FK_OP(silu_and_mul, SiluAndMul);
FK_OP(gelu, Gelu);
FK_OP(swiglu_oai, SwigluOai);

}  // namespace
