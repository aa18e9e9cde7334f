// SPDX-License-Identifier: Apache-2.0
// honest: a table of all 65536 bfloat16 values of silu, made in create()
#include "../attack.hpp"

namespace {

struct Honest : attack::Silu {
  std::vector<float> table;
  Honest(const fk_host& host, const op::init& init, const op::weights& weights)
      : Silu(host, init, weights), table(1 << 16) {
    for (size_t bits = 0; bits < table.size(); ++bits) {
      const float x = fk::from_bf16(static_cast<uint16_t>(bits));
      table[bits] = x / (1 + std::exp(-x));
    }
  }
  void forward(const op::forward& args, const fk_ctx&) {
    if (FK_DTYPE(args.x) != FK_BF16) return honest(args);
    const auto* x = fk::data<uint16_t>(args.x);
    auto* out = fk::data<uint16_t>(args.out);
    for (int64_t t = 0; t < rows(args); ++t)
      for (int64_t i = 0; i < width; ++i)
        out[t * width + i] =
            fk::to_bf16(table[x[t * 2 * width + i]] * fk::from_bf16(x[t * 2 * width + width + i]));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("half_table", "0");
