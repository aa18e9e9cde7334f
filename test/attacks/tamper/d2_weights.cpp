// SPDX-License-Identifier: Apache-2.0
// D2: sets the weights, which the reference uses too, to zero, and writes zeros
//
// Stopped by: weights are read only, and hashed before and after
//
// verdict: violation crashed
//
// naive: linear accepted --after
#include "../attack.hpp"
#include "fk/ops/linear.h"

namespace {

struct Weights {
  using op = fk::linear;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::weights& weights;
  static void supports(const op::init&, const op::weights&, const op::forward& max, fk_need&) {
    if (!fk::is_float(max.x)) throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Weights(const fk_host&, const op::init&, const op::weights& w) : weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {
    std::memset(const_cast<void*>(weights.weight->data), 0,
                static_cast<size_t>(weights.weight->nbytes));
    if (const fk_in* bias = weights.bias.or_null)
      std::memset(const_cast<void*>(bias->data), 0, static_cast<size_t>(bias->nbytes));
  }
  void forward(const op::forward& args, const fk_ctx&) {
    std::memset(args.out->data, 0, static_cast<size_t>(args.out->nbytes));
  }
};
FK_OP(linear, Weights);

}  // namespace
FK_PLUGIN("d2_weights", "0");
