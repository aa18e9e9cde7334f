// SPDX-License-Identifier: Apache-2.0
// embedding_bag: the sum or mean of a bag's rows, for each table and bag.
#include "fk/ops/embedding_bag.h"
#include "op.hpp"

namespace fk::reference {
namespace {

struct EmbeddingBag : Base<embedding_bag> {
  using Base::Base;
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    for (int64_t n = 0; n < init.num_tables; ++n) need_floats(weights.tables->at[n]);
    need_floats(max.out);
    if (init.mode == FK_EMBEDDING_BAG_MODE_MEAN && max.per_sample_weights.or_null)
      throw unsupported{"per_sample_weights: in sums only"};
    need.scratch = (init.embedding_dim + 1) * 8;
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    double* sum = scratch.take(init.embedding_dim);
    double* weight = scratch.take(1);
    for (int64_t n = 0; n < init.num_tables; ++n) {
      const fk_in* table = weights.tables->at[n];
      for (int64_t b = 0; b < args.out->shape[0]; ++b) {
        std::fill_n(sum, init.embedding_dim, 0.0);
        int64_t count = 0;
        const int64_t last = index<int64_t>(args.offsets->at[n], b + 1);
        for (int64_t j = index<int64_t>(args.offsets->at[n], b); j < last; ++j) {
          const int64_t id = index<int64_t>(args.indices->at[n], j);
          if (id == init.padding_idx) continue;
          *weight = 1;
          if (const auto* given = args.per_sample_weights.or_null) load(given->at[n], j, 1, weight);
          add_scaled(table, offset(table, id), init.embedding_dim, *weight, sum);
          ++count;
        }
        if (init.mode == FK_EMBEDDING_BAG_MODE_MEAN && count)
          for (int64_t c = 0; c < init.embedding_dim; ++c) sum[c] /= static_cast<double>(count);
        store(args.out, offset(args.out, b, n), init.embedding_dim, sum);
      }
    }
  }
};
FK_OP(embedding_bag, EmbeddingBag);

}  // namespace
}  // namespace fk::reference
