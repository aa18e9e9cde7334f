// SPDX-License-Identifier: Apache-2.0
// linear on the CPU, unoptimised: one dot product per element of out. `fk-host show linear` prints
// the contract.
#include "fk/ops/linear.h"

#include "fk/cpp/floats.hpp"

namespace {

struct Linear {
  using op = fk::linear;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    if (!fk::is_float(max.x) || !fk::is_float(max.out) || !fk::is_float(weights.weight) ||
        !fk::is_float(weights.bias))
      throw fk::unsupported{"f32, bf16 and f16 only"};
    need.scratch = 2 * init.in_features * int64_t{sizeof(float)};
  }
  Linear(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  // The place to repack the weight into memory.packed, if supports() has set need.packed.
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t rows = args.x->shape[0], inner = init.in_features, outer = init.out_features;
    float *x = static_cast<float*>(ctx.scratch), *w = x + inner;
    for (int64_t m = 0; m < rows; ++m) {
      fk::load(args.x, m * args.x->strides[0], inner, x);  // x may be strided
      for (int64_t n = 0; n < outer; ++n) {
        fk::load(weights.weight, n * inner, inner, w);
        float sum = 0;
        for (int64_t k = 0; k < inner; ++k) sum += x[k] * w[k];
        if (weights.bias.or_null) {
          float bias;
          fk::load(weights.bias.or_null, n, 1, &bias);
          sum += bias;
        }
        fk::store(args.out, m * outer + n, 1, &sum);
      }
    }
  }
};
FK_OP(linear, Linear);

}  // namespace

FK_PLUGIN("template_linear", "0.1.0");
