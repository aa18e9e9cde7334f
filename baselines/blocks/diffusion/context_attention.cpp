// SPDX-License-Identifier: Apache-2.0
// context_attention as two linear, biased_attention, linear.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

void expand_context_attention(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim");
  const Dims x = b.shape(r["x"]), context = b.shape(r["context"]);
  const Dims rows = {x[0] * x[1], x[2]}, keys = {context[0] * context[1], context[2]};
  const Value q =
      r.call(b, "linear", ".to_q",
             {{"weight", r["q"]}, {"bias", r["q_bias"]}, {"x", b.reshape(r["x"], rows)}});
  const Value kv =
      r.call(b, "linear", ".to_kv",
             {{"weight", r["kv"]}, {"bias", r["kv_bias"]}, {"x", b.reshape(r["context"], keys)}});
  const Value pairs = b.reshape(kv, {context[0], context[1], 2 * heads, width});
  const Value mixed = r.call(b, "biased_attention", ".attn",
                             {{"num_kv_heads", heads},
                              {"q", b.reshape(q, {x[0], x[1], heads, width})},
                              {"k", b.slice(pairs, 2, 0, heads)},
                              {"v", b.slice(pairs, 2, heads, heads)}});
  r.call(b, "linear", ".to_out.0",
         {{"weight", r["o"]},
          {"bias", r["o_bias"]},
          {"x", b.reshape(mixed, {rows[0], heads * width})},
          {"out", b.reshape(r["out"], rows)}});
}

FK_BLOCK(context_attention, expand_context_attention);

}  // namespace
}  // namespace fk
