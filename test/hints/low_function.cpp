// SPDX-License-Identifier: Apache-2.0
// wrong: one exponential is rounded to float16
// hint: small_errors
// says: a step or a function is imprecise
// bench: --size smoke --case smoke0
// next: The formula may be right. Look for an intermediate in f16, bf16 or tf32, and for
// approximate functions (fast math, tables).
#include "../attacks/attack.hpp"

namespace {

struct LowFunction : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<float> gate(static_cast<size_t>(width)), up(gate);
    for (int64_t t = 0; t < rows(args); ++t) {
      fk::load(args.x, t * 2 * width, width, gate.data());
      fk::load(args.x, t * 2 * width + width, width, up.data());
      for (size_t i = 0; i < gate.size(); ++i)
        gate[i] *= up[i] / (1 + fk::from_f16(fk::to_f16(std::exp(-gate[i]))));
      fk::store(args.out, t * width, width, gate.data());
    }
  }
};
FK_OP(silu_and_mul, LowFunction);

}  // namespace
FK_PLUGIN("wrong_low_function", "0");
