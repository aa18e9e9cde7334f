// SPDX-License-Identifier: Apache-2.0
// atom_transformer_block: biased_attention in windows of gathered atoms, and gated_mlp.
#include "baselines/blocks/fold/fold.hpp"

namespace fk {
namespace {

void expand_atom_transformer_block(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim"), all = heads * width;
  const Dims z = b.shape(r["z"]);
  const Expr windows = z[0], queries = z[1], keys = z[2];
  const std::string path = ".attention_pair_bias";
  const auto gathered = [&](const std::string& name, Value x, Value rows, Expr count) {
    return Value(b.call("gather_rows", r.path() + path + name,
                        {{"x", x}, {"rows", b.reshape(rows, {windows * count})}}));
  };
  const Value n = fold::modulated(b, r, path + ".layer_norm_a_q", "a", r["x"]);
  const Value of_keys = fold::modulated(b, r, path + ".layer_norm_a_k", "k", r["x"]);
  const Value q =
      gathered(".q", fold::product(b, r, path + ".mha.linear_q", r["q"], n, r["q_bias"]),
               r["q_rows"], queries);
  const Value kv =
      gathered(".kv", fold::product(b, r, path + ".mha.kv", r["kv"], of_keys), r["k_rows"], keys);
  const Value rows =
      fold::product(b, r, path + ".linear_z", r["bias_proj"], fold::by_rows(b, r["z"]));
  const int64_t of_pair = b.shape(rows)[1].value();
  // [windows, H, queries, keys]
  const Value by_head = b.call("transpose", r.path() + path + ".biases",
                               {{"x", b.reshape(rows, {windows, queries * keys, of_pair})}});
  const Value mixed = b.call("biased_attention", r.path() + path + ".mha",
                             {{"scale", fold::scale_of(r)},
                              {"q", fold::heads_of(b, q, 0, heads, width, windows, queries)},
                              {"k", fold::heads_of(b, kv, 0, heads, width, windows, keys)},
                              {"v", fold::heads_of(b, kv, 1, heads, width, windows, keys)},
                              {"bias", b.reshape(by_head, {windows, heads, queries, keys})}});
  const Value gate = gathered(".gate", fold::product(b, r, path + ".mha.linear_g", r["g"], n),
                              r["q_rows"], queries);
  const Value gated =
      fold::gated(b, r, path + ".mha.gated", gate, b.reshape(mixed, {windows * queries, all}));
  const Value own =
      b.call("gather_rows", r.path() + path + ".places", {{"x", gated}, {"rows", r["places"]}});
  const Value y = fold::product(b, r, path + ".mha.linear_o", r["o"], own);
  fold::conditioned_transition(
      b, r, fold::conditioned(b, r, path + ".linear_ada_out", "out_gate", y, r["x"]));
}

FK_BLOCK(atom_transformer_block, expand_atom_transformer_block);

}  // namespace
}  // namespace fk
