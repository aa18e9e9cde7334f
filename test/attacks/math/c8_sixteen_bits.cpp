// SPDX-License-Identifier: Apache-2.0
// C8: keeps ids in sixteen bits, which is not enough for every vocabulary
//
// Stopped by: a case with a large vocabulary
//
// verdict: wrong
//
// naive: -
//
// work: broken
//
// size: ci
#include "../attack.hpp"
#include "fk/ops/embedding.h"

namespace {

struct SixteenBits {
  using op = fk::embedding;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  static void supports(const op::init&, const op::weights& weights, const op::forward& max,
                       fk_need&) {
    if (!fk::is_float(weights.table) || !fk::is_float(max.out))
      throw fk::unsupported{"f32, bf16 and f16 only"};
  }
  SixteenBits(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}

  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t width = init.embedding_dim;
    std::vector<float> row(static_cast<size_t>(width));
    for (int64_t t = 0; t < args.ids->shape[0]; ++t) {
      const auto id = static_cast<uint16_t>(fk::data<int64_t>(args.ids)[t]);
      fk::load(weights.table, id * width, width, row.data());
      fk::store(args.out, t * width, width, row.data());
    }
  }
};
FK_OP(embedding, SixteenBits);

}  // namespace
FK_PLUGIN("c8_sixteen_bits", "0");
