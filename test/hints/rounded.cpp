// SPDX-License-Identifier: Apache-2.0
// wrong: float32 values are rounded to bfloat16 between two steps
// hint: rounded_between
// says: one rounding to bf16 between float32 steps
// bench: --size smoke --case smoke0
// next: Keep intermediates in float32: no variable, no shared memory and no input of a product in
// bf16.
#include "../attacks/attack.hpp"

namespace {

struct Rounded : attack::Norm {
  using Norm::Norm;
  void forward(const op::forward& args, const fk_ctx&) {
    const std::vector<float> gain = gains();
    for (int64_t t = 0; t < rows(args); ++t) {
      std::vector<float> row = sum_row(args, t);
      const float factor = scale_of(mean_square(row));
      for (size_t i = 0; i < row.size(); ++i)
        row[i] = fk::from_bf16(fk::to_bf16(row[i] * factor)) * gain[i];
      fk::store(args.out, t * init.hidden_size, init.hidden_size, row.data());
    }
  }
};
FK_OP(rms_norm, Rounded);

}  // namespace
FK_PLUGIN("wrong_rounded", "0");
