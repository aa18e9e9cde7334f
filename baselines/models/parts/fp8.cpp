// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/fp8.hpp"

#include <cmath>

#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk::parts {

namespace {

// f8e4m3 is finest between 2^-6 and 448; random weights are made there, and scaled back.
constexpr double kSpread = 32;

WeightSpec scales_of(const WeightSpec& weight, const Fp8& fp8) {
  WeightSpec s;
  s.name = weight.name + "_scale_inv";
  s.shape = weight.shape;
  const size_t rank = s.shape.size();
  const double gain = 1 / std::sqrt(static_cast<double>(s.shape[rank - 1]));
  s.shape[rank - 2] = (s.shape[rank - 2] + fp8.rows - 1) / fp8.rows;
  s.shape[rank - 1] = (s.shape[rank - 1] + fp8.columns - 1) / fp8.columns;
  s.stacked = weight.stacked;
  for (const auto& entry : weight.parts) {
    auto& names = s.parts.emplace_back();
    for (const auto& name : entry) names.push_back(name + "_scale_inv");
  }
  s.mean = gain / kSpread;
  s.stddev = 0.1 * s.mean;
  return s;
}

}  // namespace

Fp8 read_fp8(const Config& config) {
  const Quantization q = Quantization::of(config);
  Fp8 fp8;
  fp8.on = q.method == "fp8" && q.block_rows > 0;
  if (!fp8.on) return fp8;
  fp8.rows = q.block_rows;
  fp8.columns = q.block_columns;
  if (q.inputs == "static")
    config.child("quantization_config")
        .fail_at("activation_scheme", "`static` is not supported beside blocks", "dynamic, none");
  fp8.quantize_input = q.inputs == "dynamic";
  return fp8;
}

void add_projection(Args& args, Builder& b, const Fp8& fp8, DType dtype, const std::string& slot,
                    WeightSpec spec, const std::vector<int64_t>& part_rows) {
  spec.dtype = fp8.on ? DType::f8e4m3 : dtype;
  if (fp8.on) {
    for (size_t i = 0; i + 1 < part_rows.size(); ++i) {
      if (part_rows[i] % fp8.rows == 0) continue;
      fail(spec.name,
           "a part of it has " + std::to_string(part_rows[i]) + " rows, which blocks of " +
               std::to_string(fp8.rows) + " do not divide",
           "a smaller weight_block_size");
    }
    spec.stddev = kSpread;
    if (spec.parts.empty()) spec.parts = {{spec.name}};
    args.emplace_back(slot + "_scale_inv", b.weight(scales_of(spec, fp8)));
  }
  args.emplace_back(slot, b.weight(std::move(spec)));
}

}  // namespace fk::parts
