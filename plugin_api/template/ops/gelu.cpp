// SPDX-License-Identifier: Apache-2.0
// gelu on the CPU, unoptimised. `fk-host show gelu` prints the contract.
#include "fk/ops/gelu.h"

#include <cmath>

#include "fk/cpp/floats.hpp"

namespace {

struct Gelu {
  using op = fk::gelu;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    if (!fk::is_float(max.x)) throw fk::unsupported{"f32, bf16 and f16 only"};
    need.scratch = init.size * int64_t{sizeof(float)};
  }
  Gelu(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tokens = args.x->shape[0], width = init.size;
    const bool tanh_formula = init.approximate == FK_GELU_APPROXIMATE_TANH;
    float* row = static_cast<float*>(ctx.scratch);
    for (int64_t t = 0; t < tokens; ++t) {
      fk::load(args.x, t * width, width, row);
      for (int64_t i = 0; i < width; ++i) {
        const float x = row[i];
        row[i] = tanh_formula
                     ? 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)))
                     : 0.5f * x * std::erfc(-0.7071067812f * x);
      }
      fk::store(args.out, t * width, width, row);
    }
  }
};
FK_OP(gelu, Gelu);

}  // namespace

FK_PLUGIN("template_gelu", "0.1.0");
