// SPDX-License-Identifier: Apache-2.0
// decoder_self_attention as linear, kv_cache_append, paged_attention, linear. Queries, keys and
// values are views of the fused projection.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_decoder_self_attention(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim");
  const Value qkv =
      r.call(b, "linear", ".qkv_proj", {{"weight", r["qkv"]}, {"bias", r["qkv_bias"]}});
  const Expr tokens = b.shape(qkv)[0];
  const auto part = [&](int64_t index) {
    return b.reshape(b.slice(qkv, 1, index * heads * width, heads * width), {tokens, heads, width});
  };
  r.call(b, "kv_cache_append", ".kv_cache", {{"k", part(1)}, {"v", part(2)}});
  const Value mixed = r.call(b, "paged_attention", ".attn", {{"q", part(0)}});
  r.call(b, "linear", ".out_proj",
         {{"weight", r["o"]},
          {"bias", r["o_bias"]},
          {"x", b.reshape(mixed, {tokens, heads * width})},
          {"out", r["out"]}});
}

FK_BLOCK(decoder_self_attention, expand_decoder_self_attention);

}  // namespace
}  // namespace fk
