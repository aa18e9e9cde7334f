// SPDX-License-Identifier: Apache-2.0
// sparse_indexer as products, a norm and a rotation of keys, the cache, scores and the largest of
// them. Path names follow transformers and vLLM.
#include <cmath>

#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_sparse_indexer(Builder& b, const Region& r) {
  const int64_t heads = r.integer("index_n_heads"), width = r.integer("index_head_dim");
  const Expr tokens = b.shape(r["x"])[0];
  const auto product = [&](const char* path, const char* weight, Value x) {
    return Value(r.call(b, "linear", path, {{"weight", r[weight]}, {"x", x}}));
  };
  const Value q = b.reshape(product(".wq_b", "wq_b", r["q_c"]), {tokens, heads, width});
  const Value k = r.call(
      b, "layer_norm", ".k_norm",
      {{"weight", r["k_norm"]}, {"bias", r["k_norm_bias"]}, {"x", product(".wk", "wk", r["x"])}});
  r.call(b, "rotary_embedding", ".rotary_emb", {{"q", q}, {"k", b.reshape(k, {tokens, 1, width})}});
  // The op stores two parts of a row. Here they are halves of a key, the first a multiple of 8, so
  // that the second is aligned.
  const int64_t half = (width / 2 + 7) / 8 * 8;
  r.call(b, "mla_cache_append", ".cache",
         {{"kv_c", b.slice(k, 1, 0, half)},
          {"k_pe", b.slice(k, 1, half, width - half)},
          {"kv_cache", r["k_cache"]}});
  const Value weights = r.call(b, "linear", ".weights_proj",
                               {{"weight", r["weights_proj"]},
                                {"x", r["x"]},
                                {"out", b.empty(DType::f32, {tokens, heads})}});
  r.call(b, "indexer_scores", ".scores",
         {{"scale", 1 / std::sqrt(static_cast<double>(heads * width))},
          {"q", q},
          {"head_weights", weights},
          {"out", r["scores"]}});
  r.call(b, "topk_positions", ".topk",
         {{"top_k", r.integer("index_topk")}, {"x", r["scores"]}, {"ids", r["ids"]}});
}

FK_BLOCK(sparse_indexer, expand_sparse_indexer);

}  // namespace
}  // namespace fk
