// SPDX-License-Identifier: Apache-2.0
// layer_norm on the CPU, unoptimised: one row at a time, with sums in double. `fk-host show
// layer_norm` prints the contract.
#include "fk/ops/layer_norm.h"

#include <cmath>

#include "fk/cpp/floats.hpp"

namespace {

struct LayerNorm {
  using op = fk::layer_norm;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    if (!fk::is_float(max.x) || !fk::is_float(weights.weight) || !fk::is_float(weights.bias))
      throw fk::unsupported{"f32, bf16 and f16 only"};
    need.scratch = 3 * init.hidden_size * int64_t{sizeof(float)};
  }
  LayerNorm(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tokens = args.x->shape[0], width = init.hidden_size;
    const fk_in *weight = weights.weight.or_null, *bias = weights.bias.or_null;
    float* row = static_cast<float*>(ctx.scratch);
    float *gain = row + width, *shift = gain + width;
    for (int64_t t = 0; t < tokens; ++t) {
      fk::load(args.x, t * width, width, row);
      if (const fk_in* residual = args.residual.or_null) {
        fk::load(residual, t * width, width, gain);
        for (int64_t i = 0; i < width; ++i) row[i] += gain[i];
      }
      // If a row's values are nearly equal, a mean in float32 errs by as much as they differ.
      double mean = 0, variance = 0;
      for (int64_t i = 0; i < width; ++i) mean += row[i];
      mean /= double(width);
      for (int64_t i = 0; i < width; ++i) variance += (row[i] - mean) * (row[i] - mean);
      const double scale = 1 / std::sqrt(variance / double(width) + init.eps);
      if (weight) fk::load(weight, 0, width, gain);
      if (bias) fk::load(bias, 0, width, shift);
      for (int64_t i = 0; i < width; ++i)
        row[i] = float((row[i] - mean) * scale) * (weight ? gain[i] : 1) + (bias ? shift[i] : 0);
      fk::store(args.out, t * width, width, row);
    }
  }
};
FK_OP(layer_norm, LayerNorm);

}  // namespace

FK_PLUGIN("template_layer_norm", "0.1.0");
