// SPDX-License-Identifier: Apache-2.0
// encoder_attention (bidirectional, ragged batch) as linear, attention_varlen, linear.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_encoder_attention(Builder& b, const Region& r) {
  const int64_t channels = r.integer("hidden_size"), heads = r.integer("num_heads");
  const int64_t width = r.integer("head_dim");
  const Value qkv = b.call("linear", r.path() + ".self.qkv",
                           {{"in_features", channels},
                            {"out_features", 3 * heads * width},
                            {"weight", r["qkv"]},
                            {"bias", r["qkv_bias"]},
                            {"x", r["x"]}});
  const Expr tokens = b.shape(qkv)[0];
  const auto part = [&](int64_t index) {
    return b.reshape(b.slice(qkv, 1, index * heads * width, heads * width), {tokens, heads, width});
  };
  const Value mixed = b.call("attention_varlen", r.path() + ".self.attn",
                             {{"num_heads", heads},
                              {"num_kv_heads", heads},
                              {"head_dim", width},
                              {"scale", r.number("scale")},
                              {"causal", false},
                              {"q", part(0)},
                              {"k", part(1)},
                              {"v", part(2)},
                              {"cu_seqlens_q", r["cu_seqlens"]},
                              {"cu_seqlens_k", r["cu_seqlens"]},
                              {"max_query_len", r.scalar("max_seqlen")},
                              {"max_key_len", r.scalar("max_seqlen")}});
  b.call("linear", r.path() + ".output.dense",
         {{"in_features", heads * width},
          {"out_features", channels},
          {"weight", r["o"]},
          {"bias", r["o_bias"]},
          {"x", b.reshape(mixed, {tokens, heads * width})},
          {"out", r["out"]}});
}

FK_BLOCK(encoder_attention, expand_encoder_attention);

}  // namespace
}  // namespace fk
