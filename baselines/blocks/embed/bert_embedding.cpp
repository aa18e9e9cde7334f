// SPDX-License-Identifier: Apache-2.0
// bert_embedding as three table look-ups, their sum and a layer norm.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_bert_embedding(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size");
  const auto rows = [&](const char* name, int64_t count, Value table, Value ids) -> Value {
    return b.call("embedding", r.path() + name,
                  {{"num_embeddings", count},
                   {"embedding_dim", channels},
                   {"table", table},
                   {"ids", ids},
                   {"out", b.empty(b.dtype(r["out"]), {b.shape(ids)[0], channels})}});
  };
  const Value words = rows(".word_embeddings", r.integer("vocab_size"), r["word"], r["ids"]);
  const Value types =
      rows(".token_type_embeddings", r.integer("type_vocab_size"), r["type"], r["types"]);
  const Value places =
      rows(".position_embeddings", r.integer("max_position"), r["position"], r["positions"]);
  const Value sum =
      b.call("add", r.path() + ".add", {{"size", channels}, {"a", words}, {"b", types}});
  b.call("layer_norm", r.path() + ".LayerNorm",
         {{"hidden_size", channels},
          {"eps", r.number("eps")},
          {"weight", r["norm_weight"]},
          {"bias", r["norm_bias"]},
          {"x", sum},
          {"residual", places},
          {"out", r["out"]}});
}

FK_BLOCK(bert_embedding, expand_bert_embedding);

}  // namespace
}  // namespace fk
