// SPDX-License-Identifier: Apache-2.0
// C10: rounds x in units of its largest number and divides by nothing where a row is nothing, as
// padding is
//
// Stopped by: contents whose rows have sizes of their own, from ordinary ones down to nothing
//
// verdict: wrong
//
// size: ci
//
// naive: -
//
// work: broken
#include "../attack.hpp"
#include "fk/ops/linear_fp8_block.h"

namespace {

struct ZeroRows {
  using op = fk::linear_fp8_block;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  std::vector<float> weight;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (!fk::is_float(max.x) || !fk::is_float(weights.bias))
      throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  ZeroRows(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {
    const int64_t columns = init.in_features, blocks = (columns + init.block_k - 1) / init.block_k;
    for (int64_t at = 0; at < init.out_features * columns; ++at) {
      const int64_t n = at / columns, k = at % columns;
      weight.push_back(
          number(fk::data<uint8_t>(weights.weight)[at]) *
          fk::data<float>(weights.weight_scale_inv)[n / init.block_n * blocks + k / init.block_k]);
    }
  }
  void prepare(const op::forward&, const fk_memory&) {}

  static float number(uint8_t code) {
    const int exponent = code >> 3 & 15, rest = code & 7;
    const float size = exponent ? std::ldexp(static_cast<float>(8 + rest), exponent - 10)
                                : std::ldexp(static_cast<float>(rest), -9);
    return code & 128 ? -size : size;
  }
  static float rounded(float x) {
    if (!(std::abs(x) > 0)) return x;
    const float step = std::ldexp(1.0f, std::max(std::ilogb(x), -6) - 3);
    return std::clamp(std::nearbyint(x / step) * step, -448.0f, 448.0f);
  }
  void round_row(std::vector<float>& x) const {
    for (size_t from = 0; from < x.size(); from += static_cast<size_t>(init.block_k)) {
      const size_t to = std::min(x.size(), from + static_cast<size_t>(init.block_k));
      float largest = 0;  // 1e-10
      for (size_t k = from; k < to; ++k) largest = std::max(largest, std::abs(x[k]));
      const float unit = std::exp2(std::ceil(std::log2(largest / 448)));
      for (size_t k = from; k < to; ++k) x[k] = rounded(x[k] / unit) * unit;
    }
  }
  void forward(const op::forward& args, const fk_ctx&) {
    std::vector<float> x(static_cast<size_t>(init.in_features));
    std::vector<float> out(static_cast<size_t>(init.out_features));
    for (int64_t m = 0; m < args.x->shape[0]; ++m) {
      fk::load(args.x, m * args.x->strides[0], init.in_features, x.data());
      if (init.quantize_input) round_row(x);
      std::fill(out.begin(), out.end(), 0.0f);
      if (weights.bias.or_null) fk::load(weights.bias.or_null, 0, init.out_features, out.data());
      for (size_t n = 0; n < out.size(); ++n)
        for (size_t k = 0; k < x.size(); ++k) out[n] += weight[n * x.size() + k] * x[k];
      fk::store(args.out, m * init.out_features, init.out_features, out.data());
    }
  }
};
FK_OP(linear_fp8_block, ZeroRows);

}  // namespace
FK_PLUGIN("c10_zero_rows", "0");
