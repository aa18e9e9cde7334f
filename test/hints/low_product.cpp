// SPDX-License-Identifier: Apache-2.0
// wrong: products are added up in bfloat16
// hint: sum_in_low_precision
// says: the errors are those of a sum of
// next: Accumulate in float32, also between tiles and threads, and round once, at the store.
#include "../attacks/linear.hpp"

namespace {

struct LowProduct : attack::Linear {
  using Linear::Linear;
  void forward(const op::forward& args, const fk_ctx&) {
    rows(args, [](const float* x, const float* w, int64_t k) {
      float sum = 0;
      for (int64_t i = 0; i < k; ++i) sum = fk::from_bf16(fk::to_bf16(sum + x[i] * w[i]));
      return sum;
    });
  }
};
FK_OP(linear, LowProduct);

}  // namespace
FK_PLUGIN("wrong_low_product", "0");
