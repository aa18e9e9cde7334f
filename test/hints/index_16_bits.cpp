// SPDX-License-Identifier: Apache-2.0
// wrong: ids are held in 16 bits
// hint: index_16_bits
// says: ids is read as 16 bits
// bench: --size range --case rows
// next: Hold indices in 32 bits, and products of indices in 64.
#include "../attacks/attack.hpp"
#include "fk/ops/embedding.h"

namespace {

struct Index16Bits {
  using op = fk::embedding;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::weights& weights;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (!fk::is_float(weights.table) || !fk::is_float(max.out))
      throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  Index16Bits(const fk_host&, const op::init&, const op::weights& w) : weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) const {
    const int64_t width = args.out->shape[1];
    std::vector<float> row(static_cast<size_t>(width));
    for (int64_t t = 0; t < args.out->shape[0]; ++t) {
      const auto id = static_cast<uint16_t>(fk::data<int64_t>(args.ids)[t]);
      fk::load(weights.table, id * width, width, row.data());
      fk::store(args.out, t * width, width, row.data());
    }
  }
};
FK_OP(embedding, Index16Bits);

}  // namespace
FK_PLUGIN("wrong_index_16_bits", "0");
