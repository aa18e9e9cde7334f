// SPDX-License-Identifier: Apache-2.0
// C6: keeps the scales of blocks in fixed point with 22 bits of fraction. Near 1 this is as exact
// as float32, but a model's scales are far smaller
//
// Stopped by: blocks whose scales are as small as a model's
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../attack.hpp"
#include "fk/ops/linear_fp8_block.h"

namespace {

struct FixedScales {
  using op = fk::linear_fp8_block;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  std::vector<int32_t> scales;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (!fk::is_float(max.x) || !fk::is_float(weights.bias))
      throw fk::unsupported{"f32, bf16 and f16 only"};
    if (init.quantize_input) throw fk::unsupported{"rows as they are"};
  }
  FixedScales(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {
    const fk_in* own = weights.weight_scale_inv;
    for (int64_t i = 0; i < own->shape[0] * own->shape[1]; ++i)
      scales.push_back(int32_t(std::lrint(fk::data<float>(own)[i] * 0x1p22f)));
  }
  void prepare(const op::forward&, const fk_memory&) {}

  static float from_f8(uint8_t bits) {
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    const float size =
        exponent ? std::ldexp(float(8 + mantissa), exponent - 10) : std::ldexp(float(mantissa), -9);
    return bits & 0x80 ? -size : size;
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t columns = init.in_features, rows = init.out_features,
                  across = (columns + init.block_k - 1) / init.block_k;
    std::vector<float> x(static_cast<size_t>(columns)), out(static_cast<size_t>(rows)), bias(out);
    if (weights.bias.or_null) fk::load(weights.bias.or_null, 0, rows, bias.data());
    for (int64_t m = 0; m < args.x->shape[0]; ++m) {
      fk::load(args.x, m * args.x->strides[0], columns, x.data());
      for (int64_t n = 0; n < rows; ++n) {
        const uint8_t* weight = fk::data<uint8_t>(weights.weight) + n * columns;
        float sum = bias[static_cast<size_t>(n)];
        for (int64_t b = 0; b < across; ++b) {
          float part = 0;
          for (int64_t k = b * init.block_k; k < std::min(columns, (b + 1) * init.block_k); ++k)
            part += x[static_cast<size_t>(k)] * from_f8(weight[k]);
          sum +=
              part * 0x1p-22f * float(scales[static_cast<size_t>(n / init.block_n * across + b)]);
        }
        out[static_cast<size_t>(n)] = sum;
      }
      fk::store(args.out, m * rows, rows, out.data());
    }
  }
};
FK_OP(linear_fp8_block, FixedScales);

}  // namespace
FK_PLUGIN("c6_fixed_scales", "0");
