// SPDX-License-Identifier: Apache-2.0
// triangle_attention: biased_attention of the lines of pairs, or of the columns.
#include "baselines/blocks/fold/fold.hpp"

namespace fk {
namespace {

void expand_triangle_attention(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim"), all = heads * width;
  const Expr tokens = b.shape(r["z"])[0], pairs = tokens * tokens;
  const bool ending = r.flag("ending");
  const Value n = fold::norm(b, r, ".layer_norm", "norm", r["z"]);
  const Value qkv = fold::product(b, r, ".mha.qkv", b.slice(r["qkvg"], 0, 0, 3 * all), n);
  const auto part = [&](int64_t i) {
    const Value v = fold::heads_of(b, qkv, i, heads, width, tokens, tokens);
    return ending ? b.permute(v, {1, 0, 2, 3}) : v;
  };
  const Value rows = fold::product(b, r, ".linear_z", r["bias_proj"], n);
  Value mixed = b.call("biased_attention", r.path() + ".mha",
                       {{"scale", fold::scale_of(r)},
                        {"q", part(0)},
                        {"k", part(1)},
                        {"v", part(2)},
                        {"bias", fold::biases(b, r, ".biases", rows, tokens, tokens)}});
  mixed = b.reshape(mixed, {tokens, tokens, all});
  if (ending) mixed = fold::dense(b, r, ".mha.columns", b.permute(mixed, {1, 0, 2}));
  const Value gate = fold::product(b, r, ".mha.linear_g", b.slice(r["qkvg"], 0, 3 * all, all), n);
  const Value gated = fold::gated(b, r, ".mha.gated", gate, b.reshape(mixed, {pairs, all}));
  b.call("linear", r.path() + ".mha.linear_o",
         {{"weight", r["o"]}, {"x", gated}, {"out", fold::by_rows(b, r["out"])}});
}

FK_BLOCK(triangle_attention, expand_triangle_attention);

}  // namespace
}  // namespace fk
