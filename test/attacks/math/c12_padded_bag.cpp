// SPDX-License-Identifier: Apache-2.0
// C12: takes the one shape that it was written for. Cases of this shape leave no index out, and it
// leaves none out when it is asked to
//
// Stopped by: large cases are also called with the switches of small ones
//
// verdict: wrong
//
// naive: - it takes no float32
//
// work: broken
//
// size: ci
#include "../attack.hpp"
#include "fk/ops/embedding_bag.h"

namespace {

struct PaddedBag {
  using op = fk::embedding_bag;
  static constexpr fk_claims claims = fk::cpu_claims;
  const op::init& init;
  const op::weights& weights;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (init.embedding_dim != 128 || max.per_sample_weights.or_null || !fk::is_float(max.out))
      throw fk::unsupported{"bags of 128 channels without weights"};
  }
  PaddedBag(const fk_host&, const op::init& i, const op::weights& w) : init(i), weights(w) {}
  void prepare(const op::forward&, const fk_memory&) {}
  void forward(const op::forward& args, const fk_ctx&) {
    const int64_t width = init.embedding_dim;
    std::vector<float> row(128), sum(128);
    for (int64_t k = 0; k < init.num_tables; ++k) {
      const auto* starts = fk::data<int64_t>(args.offsets->at[k]);
      const auto* chosen = fk::data<int64_t>(args.indices->at[k]);
      for (int64_t b = 0; b < args.out->shape[0]; ++b) {
        std::fill(sum.begin(), sum.end(), 0.F);
        for (int64_t j = starts[b]; j < starts[b + 1]; ++j) {
          fk::load(weights.tables->at[k], chosen[j] * width, width, row.data());
          for (size_t i = 0; i < sum.size(); ++i) sum[i] += row[i];
        }
        const int64_t count = starts[b + 1] - starts[b];
        if (init.mode == FK_EMBEDDING_BAG_MODE_MEAN && count)
          for (float& v : sum) v /= static_cast<float>(count);
        fk::store(args.out, (b * init.num_tables + k) * width, width, sum.data());
      }
    }
  }
};
FK_OP(embedding_bag, PaddedBag);

}  // namespace
FK_PLUGIN("c12_padded_bag", "0");
