// SPDX-License-Identifier: Apache-2.0
// honest: a static table, made by the first call that needs it, under a lock
#include "../attack.hpp"

namespace {

const std::vector<float>& table() {
  static const std::vector<float> made = [] {
    std::vector<float> out(1 << 16);
    for (size_t bits = 0; bits < out.size(); ++bits) {
      const float x = fk::from_bf16(static_cast<uint16_t>(bits));
      out[bits] = x / (1 + std::exp(-x));
    }
    return out;
  }();
  return made;
}
struct Honest : attack::Silu {
  using Silu::Silu;
  void forward(const op::forward& args, const fk_ctx&) {
    if (FK_DTYPE(args.x) != FK_BF16) return honest(args);
    const auto* x = fk::data<uint16_t>(args.x);
    auto* out = fk::data<uint16_t>(args.out);
    for (int64_t t = 0; t < rows(args); ++t)
      for (int64_t i = 0; i < width; ++i)
        out[t * width + i] = fk::to_bf16(table()[x[t * 2 * width + i]] *
                                         fk::from_bf16(x[t * 2 * width + width + i]));
  }
};
FK_OP(silu_and_mul, Honest);

}  // namespace
FK_PLUGIN("lazy_table", "0");
