// SPDX-License-Identifier: Apache-2.0
// C6: has a table of the powers of two from 2^-15 to 1 and looks scales up by their last four bits.
// There are 255 of them
//
// Stopped by: a case whose scales are smaller than those of others
//
// verdict: wrong
//
// naive: -
//
// work: broken
#include "../attack.hpp"
#include "fk/ops/moe_grouped_gemm_mxfp4.h"

namespace {

struct SixteenScales {
  using op = fk::moe_grouped_gemm_mxfp4;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  std::vector<float> powers;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (!fk::is_float(max.x) || !fk::is_float(weights.bias))
      throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  SixteenScales(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {
    for (int scale = 112; scale < 128; ++scale) powers.push_back(std::ldexp(1.0f, scale - 127));
  }
  void prepare(const op::forward&, const fk_memory&) {}

  float dot(int64_t row, const std::vector<float>& x) const {
    static constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const int64_t columns = init.in_features;
    const auto* packed = fk::data<uint8_t>(weights.weight) + row * columns / 2;
    const auto* scales = fk::data<uint8_t>(weights.weight_scale) + row * columns / 32;
    float sum = 0;
    for (int64_t k = 0; k < columns; ++k) {
      const int code = k % 2 ? packed[k / 2] >> 4 : packed[k / 2] & 15;
      const float value = (code & 8 ? -1.0f : 1.0f) * kValues[code & 7];
      sum += value * powers[scales[k / 32] & 15] * x[size_t(k)];
    }
    return sum;
  }
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t columns = init.in_features, rows = init.out_features;
    const auto* starts = fk::data<int32_t>(args.expert_offsets);
    std::vector<float> x(static_cast<size_t>(columns)), out(static_cast<size_t>(rows));
    for (int64_t e = 0; e < init.num_experts; ++e) {
      for (int64_t j = starts[e]; j < starts[e + 1]; ++j) {
        const int64_t to = fk::data<int32_t>(args.row_ids)[j];
        fk::load(args.x, to / init.top_k * columns, columns, x.data());
        std::fill(out.begin(), out.end(), 0.0f);
        if (weights.bias.or_null) fk::load(weights.bias.or_null, e * rows, rows, out.data());
        for (int64_t n = 0; n < rows; ++n) out[size_t(n)] += dot(e * rows + n, x);
        fk::store(args.out, to * rows, rows, out.data());
      }
    }
  }
};
FK_OP(moe_grouped_gemm_mxfp4, SixteenScales);

}  // namespace
FK_PLUGIN("c6_sixteen_scales", "0");
