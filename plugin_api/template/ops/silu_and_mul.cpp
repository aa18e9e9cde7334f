// SPDX-License-Identifier: Apache-2.0
// silu_and_mul on the CPU, unoptimised. `fk-host show silu_and_mul` prints the contract.
#include "fk/ops/silu_and_mul.h"

#include <cmath>

#include "fk/cpp/floats.hpp"

namespace {

struct SiluAndMul {
  using op = fk::silu_and_mul;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;

  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    if (!fk::is_float(max.x)) throw fk::unsupported{"f32, bf16 and f16 only"};
    need.scratch = 2 * init.size * int64_t{sizeof(float)};
  }
  SiluAndMul(const fk_host&, const op::init& i, const op::weights&) : init(i) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx& ctx) {
    const int64_t tokens = args.x->shape[0], width = init.size;
    float *gate = static_cast<float*>(ctx.scratch), *up = gate + width;
    for (int64_t t = 0; t < tokens; ++t) {
      fk::load(args.x, t * 2 * width, 2 * width, gate);  // gate, then up
      for (int64_t i = 0; i < width; ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      fk::store(args.out, t * width, width, gate);
    }
  }
};
FK_OP(silu_and_mul, SiluAndMul);

}  // namespace

FK_PLUGIN("template_silu_and_mul", "0.1.0");
