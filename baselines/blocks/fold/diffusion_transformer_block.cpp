// SPDX-License-Identifier: Apache-2.0
// diffusion_transformer_block: biased_attention of all tokens and gated_mlp, both modulated.
#include "baselines/blocks/fold/fold.hpp"

namespace fk {
namespace {

void expand_diffusion_transformer_block(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim"), all = heads * width;
  const Expr tokens = b.shape(r["x"])[0];
  const std::string path = ".attention_pair_bias";
  const Value n = fold::modulated(b, r, path + ".layer_norm_a", "a", r["x"]);
  const Value rows =
      fold::product(b, r, path + ".linear_z", r["bias_proj"], fold::by_rows(b, r["z"]));
  const Value q = fold::product(b, r, path + ".mha.linear_q", r["q"], n, r["q_bias"]);
  const Value kv = fold::product(b, r, path + ".mha.kv", r["kv"], n);
  const Value mixed =
      b.call("biased_attention", r.path() + path + ".mha",
             {{"scale", fold::scale_of(r)},
              {"q", fold::heads_of(b, q, 0, heads, width, 1, tokens)},
              {"k", fold::heads_of(b, kv, 0, heads, width, 1, tokens)},
              {"v", fold::heads_of(b, kv, 1, heads, width, 1, tokens)},
              {"bias", fold::biases(b, r, path + ".biases", rows, tokens, tokens)}});
  const Value gated =
      fold::gated(b, r, path + ".mha.gated", fold::product(b, r, path + ".mha.linear_g", r["g"], n),
                  b.reshape(mixed, {tokens, all}));
  const Value y = fold::product(b, r, path + ".mha.linear_o", r["o"], gated);
  fold::conditioned_transition(
      b, r, fold::conditioned(b, r, path + ".linear_ada_out", "out_gate", y, r["x"]));
}

FK_BLOCK(diffusion_transformer_block, expand_diffusion_transformer_block);

}  // namespace
}  // namespace fk
