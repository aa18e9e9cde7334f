// SPDX-License-Identifier: Apache-2.0
// sparse_indexer, in two passes: keys of all tokens into the cache, then scores and the choice of
// each token (index.hpp).
#include "fk/ops/sparse_indexer.h"
#include "index.hpp"

namespace fk::reference {
namespace {

struct SparseIndexer : Base<sparse_indexer> {
  using Base::Base;
  struct Rows {
    double *x, *q_c, *key, *norm, *weights, *scores, *queries;
    int64_t* order;
    Rows(Scratch& s, const op::init& i, const op::forward& args)
        : x(s.take(i.hidden_size)),
          q_c(s.take(i.q_lora_rank)),
          key(s.take(i.index_head_dim)),
          norm(s.take(i.index_head_dim)),
          weights(s.take(args.x->shape[0] * i.index_n_heads)),
          scores(s.take(args.scores->shape[1])),
          queries(s.take(args.x->shape[0] * i.index_n_heads * i.index_head_dim)),
          order(reinterpret_cast<int64_t*>(s.take(args.scores->shape[1]))) {}
  };
  static void supports(const op::init& init, const op::weights& weights, const op::forward& max,
                       fk_need& need) {
    need_floats(weights.wq_b, weights.wk, weights.k_norm, weights.k_norm_bias, weights.weights_proj,
                max.x, max.q_c, max.k_cache, max.scores);
    if (init.rotary_dim > init.index_head_dim) throw unsupported{"rotary_dim exceeds the head"};
    need.scratch = scratch_bytes<Rows>(init, max);
  }
  void forward(const op::forward& args, const fk_ctx& ctx) {
    Scratch scratch(ctx);
    const Rows row(scratch, init, args);
    for (int64_t t = 0; t < args.x->shape[0]; ++t) project(args, row, t);
    const int64_t heads = init.index_n_heads, width = init.index_head_dim;
    const double scale = 1 / std::sqrt(static_cast<double>(heads * width));
    const int64_t count = args.scores->shape[1];
    each_query(args, [&](int64_t t, int64_t b, int64_t position) {
      const IndexRequest request{fk_as_in(args.k_cache),
                                 data<int32_t>(args.block_tables) + offset(args.block_tables, b),
                                 init.page_size, heads, width};
      request.score(scale, row.queries + t * heads * width, row.weights + t * heads, position,
                    count, row.scores);
      store(args.scores, offset(args.scores, t), count, row.scores);
      // Scores that are equal once they are rounded are ties.
      load(args.scores, offset(args.scores, t), count, row.scores);
      choose_largest(row.scores, std::min(count, index<int64_t>(args.positions, t) + 1),
                     init.index_topk, row.order, data<int32_t>(args.ids) + offset(args.ids, t));
    });
  }

 private:
  // Queries and weights of token t into scratch, its key into the cache.
  void project(const op::forward& args, const Rows& row, int64_t t) const {
    const int64_t heads = init.index_n_heads, width = init.index_head_dim;
    load(args.x, offset(args.x, t), init.hidden_size, row.x);
    load(args.q_c, offset(args.q_c, t), init.q_lora_rank, row.q_c);
    double* q = row.queries + t * heads * width;
    matrix_vector(weights.wq_b, 0, heads * width, init.q_lora_rank, nullptr, row.q_c, q);
    matrix_vector(weights.wk, 0, width, init.hidden_size, nullptr, row.x, row.key);
    matrix_vector(weights.weights_proj, 0, heads, init.hidden_size, nullptr, row.x,
                  row.weights + t * heads);
    layer_normalize(row.key, width, init.eps, weights.k_norm, weights.k_norm_bias, row.norm);
    const fk_in* cache = weights.cos_sin_cache;
    const float* table = data<float>(cache) + offset(cache, index<int64_t>(args.positions, t));
    for (int64_t h = 0; h < heads; ++h)
      rotate(q + h * width, init.rotary_dim, init.interleaved != 0, table);
    rotate(row.key, init.rotary_dim, init.interleaved != 0, table);
    const int64_t slot = index<int64_t>(args.slot_mapping, t);
    if (slot >= 0)
      store(args.k_cache, offset(args.k_cache, slot / init.page_size, slot % init.page_size), width,
            row.key);
  }
};
FK_OP(sparse_indexer, SparseIndexer);

}  // namespace
}  // namespace fk::reference
