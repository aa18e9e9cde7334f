// SPDX-License-Identifier: Apache-2.0
// wrong: squares are added up in bfloat16
// hint: sum_in_low_precision
// says: the errors are those of a sum of
// bench: --size smoke --secret 8f98d500a1d2b45999151942e5dd7d253b0e982904d0c5672eb4f298f0ec155e
// next: Accumulate in float32, also between tiles and threads, and round once, at the store.
#include "../attacks/attack.hpp"

namespace {

struct LowSum : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    with(args, gains(), [&](const std::vector<float>& row) {
      float sum = 0;
      for (const float v : row) sum = fk::from_bf16(fk::to_bf16(sum + v * v));
      return scale_of(sum / float(row.size()));
    });
  }
};
FK_OP(rms_norm, LowSum);

}  // namespace
FK_PLUGIN("wrong_low_sum", "0");
