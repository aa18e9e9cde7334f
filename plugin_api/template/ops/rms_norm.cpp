// SPDX-License-Identifier: Apache-2.0
// rms_norm on the CPU, unoptimised: one row at a time in float32. `fk-host show rms_norm` prints
// the contract.
#include "fk/ops/rms_norm.h"

#include <cmath>

#include "fk/cpp/floats.hpp"

namespace {

struct RmsNorm {
  using op = fk::rms_norm;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;

  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    if (!fk::is_float(max.x) || !fk::is_float(weights.weight))
      throw fk::unsupported{"f32, bf16 and f16 only"};
    need.scratch = 3 * init.hidden_size * int64_t{sizeof(float)};
  }
  RmsNorm(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tokens = args.x->shape[0], width = init.hidden_size;
    const fk_in* weight = weights.weight.or_null;
    const fk_inout* residual = args.residual.or_null;
    float* row = static_cast<float*>(ctx.scratch);
    float *other = row + width, *gain = other + width;
    if (weight) fk::load(weight, 0, width, gain);
    for (int64_t t = 0; t < tokens; ++t) {
      fk::load(args.x, t * width, width, row);
      if (residual) {
        fk::load(residual, t * width, width, other);
        for (int64_t i = 0; i < width; ++i) row[i] += other[i];
        fk::store(residual, t * width, width, row);
      }
      float sum = 0;
      for (int64_t i = 0; i < width; ++i) sum += row[i] * row[i];
      const float scale = 1 / std::sqrt(sum / float(width) + float(init.eps));
      for (int64_t i = 0; i < width; ++i) row[i] *= scale * (weight ? gain[i] : 1);
      fk::store(args.out, t * width, width, row);
    }
  }
};
FK_OP(rms_norm, RmsNorm);

}  // namespace

FK_PLUGIN("template_rms_norm", "0.1.0");
