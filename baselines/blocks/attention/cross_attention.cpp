// SPDX-License-Identifier: Apache-2.0
// cross_attention as linear, paged_attention, linear. A slot is a page with a whole source.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_cross_attention(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim");
  const Value q = r.call(b, "linear", ".q_proj", {{"weight", r["q"]}, {"bias", r["q_bias"]}});
  const Expr tokens = b.shape(q)[0], requests = b.shape(r["state_slots"])[0];
  const Value mixed = r.call(b, "paged_attention", ".attn",
                             {{"causal", false},
                              {"q", b.reshape(q, {tokens, heads, width})},
                              {"k_cache", r["source_k"]},
                              {"v_cache", r["source_v"]},
                              {"block_tables", b.reshape(r["state_slots"], {requests, 1})},
                              {"seq_lens", r["source_lens"]},
                              {"max_seq_len", r.integer("source_len")}});
  r.call(b, "linear", ".out_proj",
         {{"weight", r["o"]},
          {"bias", r["o_bias"]},
          {"x", b.reshape(mixed, {tokens, heads * width})},
          {"out", r["out"]}});
}

FK_BLOCK(cross_attention, expand_cross_attention);

}  // namespace
}  // namespace fk
