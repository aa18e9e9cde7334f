// SPDX-License-Identifier: Apache-2.0
// honest: reads everything again for every pass
#include "../attack.hpp"

namespace {

struct Honest : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    for (int64_t t = 0; t < rows(args); ++t) {
      const std::vector<float> row = sum_row(args, t);
      for (size_t i = 0; i < row.size(); ++i) {
        const float out = row[i] * scale_of(mean_square(row)) * gains()[i];
        if (row.size() > 128) break;
        fk::store(args.out, t * init.hidden_size + static_cast<int64_t>(i), 1, &out);
      }
      if (row.size() <= 128) continue;
      const std::vector<float> gain = gains();
      const float scale = scale_of(mean_square(row));
      for (size_t i = 0; i < row.size(); ++i) {
        const float out = row[i] * scale * gain[i];
        fk::store(args.out, t * init.hidden_size + static_cast<int64_t>(i), 1, &out);
      }
    }
  }
};
FK_OP(rms_norm, Honest);

}  // namespace
FK_PLUGIN("recomputes", "0");
