// SPDX-License-Identifier: Apache-2.0
// embedding, embedding_bag: one thread per element of the output; a bag is summed in its order.
#include "common.cuh"
#include "fk/ops/embedding.h"
#include "fk/ops/embedding_bag.h"

namespace {
using namespace fkr;

struct Embedding : Plain<fk::embedding> {
  using Plain::Plain;
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref table = ref(weights.table), out = ref(a.out);
    const auto* ids = fk::data<int64_t>(a.ids);
    const int64_t width = init.embedding_dim;
    for_each(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) { store(out, i, load(table, ids[i / width] * width + i % width)); });
  }
};
struct EmbeddingBag : Plain<fk::embedding_bag> {
  using Plain::Plain;
  static void supports(const op::init& init, const op::weights&, const op::forward& max, fk_need&) {
    if (init.mode == FK_EMBEDDING_BAG_MODE_MEAN && max.per_sample_weights.or_null)
      throw fk::unsupported{"per_sample_weights: in sums only"};
  }
  void forward(const op::forward& a, const fk_ctx& ctx) {
    const Ref out = ref(a.out);
    const int64_t width = init.embedding_dim, tables = init.num_tables, padding = init.padding_idx;
    const bool mean = init.mode == FK_EMBEDDING_BAG_MODE_MEAN;
    for (int64_t n = 0; n < tables; ++n) {
      const Ref table = ref(weights.tables->at[n]);
      const Ref factors = a.per_sample_weights.or_null ? ref(a.per_sample_weights.or_null->at[n]) : Ref{};
      const auto *indices = fk::data<int64_t>(a.indices->at[n]), *offsets = fk::data<int64_t>(a.offsets->at[n]);
      for_each(a.out->shape[0] * width, ctx, [=] __device__(int64_t i) {
        const int64_t b = i / width, c = i % width;
        double sum = 0;
        int64_t count = 0;
        for (int64_t j = offsets[b]; j < offsets[b + 1]; ++j) {
          if (indices[j] == padding) continue;
          sum += load_or(factors, j, 1) * load(table, indices[j] * width + c);
          ++count;
        }
        store(out, (b * tables + n) * width + c, mean && count ? sum / double(count) : sum);
      });
    }
  }
};
FK_OP(embedding, Embedding);
FK_OP(embedding_bag, EmbeddingBag);

}  // namespace
