// SPDX-License-Identifier: Apache-2.0
// linear done right but for the product of two vectors, which each control brings along.
#pragma once
#include "attack.hpp"
#include "fk/ops/linear.h"

namespace attack {

struct Linear {
  using op = fk::linear;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (!fk::is_float(max.x) || !fk::is_float(weights.weight) || !fk::is_float(weights.bias) ||
        !fk::is_float(max.out))
      throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Linear(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}
  // `dot` multiplies a row of x with one of the weight: two vectors and their length.
  template <class Dot>
  void rows(const op::forward& args, Dot dot) const {
    const int64_t k = init.in_features, n = init.out_features;
    std::vector<float> x(static_cast<size_t>(k)), w(x), out(static_cast<size_t>(n)), bias(out);
    if (weights.bias.or_null) fk::load(weights.bias.or_null, 0, n, bias.data());
    for (int64_t m = 0; m < args.x->shape[0]; ++m) {
      fk::load(args.x, m * args.x->strides[0], k, x.data());
      for (int64_t i = 0; i < n; ++i) {
        fk::load(weights.weight, i * k, k, w.data());
        out[static_cast<size_t>(i)] = dot(x.data(), w.data(), k) + bias[static_cast<size_t>(i)];
      }
      fk::store(args.out, m * n, n, out.data());
    }
  }
};

}  // namespace attack
