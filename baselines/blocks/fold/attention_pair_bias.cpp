// SPDX-License-Identifier: Apache-2.0
// attention_pair_bias: biased_attention of all tokens, with a gate.
#include "baselines/blocks/fold/fold.hpp"

namespace fk {
namespace {

void expand_attention_pair_bias(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim"), all = heads * width;
  const Expr tokens = b.shape(r["x"])[0];
  const Value n = fold::norm(b, r, ".layer_norm_a", "norm", r["x"]);
  const Value rows = fold::product(b, r, ".linear_z", r["bias_proj"],
                                   fold::norm(b, r, ".layer_norm_z", "norm_z", r["z"]));
  const Value q = fold::product(b, r, ".mha.linear_q", r["q"], n, r["q_bias"]);
  const Value kv = fold::product(b, r, ".mha.kv", b.slice(r["kvg"], 0, 0, 2 * all), n);
  const Value gate = fold::product(b, r, ".mha.linear_g", b.slice(r["kvg"], 0, 2 * all, all), n);
  const Value mixed = b.call("biased_attention", r.path() + ".mha",
                             {{"scale", fold::scale_of(r)},
                              {"q", fold::heads_of(b, q, 0, heads, width, 1, tokens)},
                              {"k", fold::heads_of(b, kv, 0, heads, width, 1, tokens)},
                              {"v", fold::heads_of(b, kv, 1, heads, width, 1, tokens)},
                              {"bias", fold::biases(b, r, ".biases", rows, tokens, tokens)}});
  const Value gated = fold::gated(b, r, ".mha.gated", gate, b.reshape(mixed, {tokens, all}));
  b.call("linear", r.path() + ".mha.linear_o",
         {{"weight", r["o"]}, {"x", gated}, {"out", r["out"]}});
}

FK_BLOCK(attention_pair_bias, expand_attention_pair_bias);

}  // namespace
}  // namespace fk
