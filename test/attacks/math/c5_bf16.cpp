// SPDX-License-Identifier: Apache-2.0
// C5: rounds its float32 input to bfloat16 first
//
// Stopped by: an error model by dtype and reduction length
//
// verdict: wrong
//
// naive: rms_norm accepted
#include "../attack.hpp"

namespace {

struct Rounded : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    const std::vector<float> gain = gains();
    for (int64_t t = 0; t < rows(args); ++t) {
      std::vector<float> row = sum_row(args, t);
      for (float& v : row) v = fk::from_bf16(fk::to_bf16(v));
      const float factor = fk::from_bf16(fk::to_bf16(scale_of(mean_square(row))));
      for (size_t i = 0; i < row.size(); ++i)
        row[i] = fk::from_bf16(fk::to_bf16(row[i] * factor * gain[i]));
      fk::store(args.out, t * init.hidden_size, init.hidden_size, row.data());
    }
  }
};
FK_OP(rms_norm, Rounded);

}  // namespace
FK_PLUGIN("c5_bf16", "0");
