// SPDX-License-Identifier: Apache-2.0
// indexer_scores: every token with the cached keys of its request (IndexRequest in index.hpp).
#include "fk/ops/indexer_scores.h"
#include "index.hpp"

namespace fk::reference {
namespace {

struct IndexerScores : Base<indexer_scores> {
  using Base::Base;
  struct Rows {
    double *q, *weights, *scores;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : q(s.take(i.num_heads * i.head_dim)),
          weights(s.take(i.num_heads)),
          scores(s.take(args.out->shape[1])) {}
  };
  static void supports(const op::init& init, const op::weights&, const op::forward& max,
                       fk_need& need) {
    need_floats(max.q, max.head_weights, max.k_cache, max.out);
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init, args);
    const int64_t heads = init.num_heads, width = init.head_dim;
    each_query(args, [&](int64_t t, int64_t b, int64_t position) {
      for (int64_t h = 0; h < heads; ++h)
        load(args.q, offset(args.q, t, h), width, row.q + h * width);
      load(args.head_weights, offset(args.head_weights, t), heads, row.weights);
      const IndexRequest request{args.k_cache,
                                 data<int32_t>(args.block_tables) + offset(args.block_tables, b),
                                 init.page_size, heads, width};
      request.score(init.scale, row.q, row.weights, position, args.out->shape[1], row.scores);
      store(args.out, offset(args.out, t), args.out->shape[1], row.scores);
    });
  }
};
FK_OP(indexer_scores, IndexerScores);

}  // namespace
}  // namespace fk::reference
