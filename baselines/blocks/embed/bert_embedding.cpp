// SPDX-License-Identifier: Apache-2.0
// bert_embedding as three table look-ups, their sum and a layer norm.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_bert_embedding(Builder& b, const Region& r) {
  const auto rows = [&](const char* path, Value table, Value ids) -> Value {
    const Dims shape{b.shape(ids)[0], r.integer("hidden_size")};
    return b.call("embedding", r.path() + path,
                  {{"table", table}, {"ids", ids}, {"out", b.empty(b.dtype(r["out"]), shape)}});
  };
  const Value words = rows(".word_embeddings", r["word"], r["ids"]);
  const Value types = rows(".token_type_embeddings", r["type"], r["types"]);
  const Value places = rows(".position_embeddings", r["position"], r["positions"]);
  const Value sum = r.call(b, "add", ".add", {{"a", words}, {"b", types}});
  r.call(b, "layer_norm", ".LayerNorm",
         {{"weight", r["norm_weight"]},
          {"bias", r["norm_bias"]},
          {"x", sum},
          {"residual", places},
          {"out", r["out"]}});
}

FK_BLOCK(bert_embedding, expand_bert_embedding);

}  // namespace
}  // namespace fk
