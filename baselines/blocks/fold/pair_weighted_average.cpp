// SPDX-License-Identifier: Apache-2.0
// pair_weighted_average: biased_attention whose scores are the biases alone.
#include "baselines/blocks/fold/fold.hpp"

namespace fk {
namespace {

void expand_pair_weighted_average(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim"), all = heads * width;
  const Dims shape = b.shape(r["m"]);
  const Expr sequences = shape[0], tokens = shape[1];
  const Value n = fold::norm(b, r, ".layer_norm_m", "norm", r["m"]);
  const Value rows = fold::product(b, r, ".linear_z", r["bias_proj"],
                                   fold::norm(b, r, ".layer_norm_z", "norm_z", r["z"]));
  const Value v = fold::product(b, r, ".linear_v", b.slice(r["vg"], 0, 0, all), n);
  const Value none = b.zeros(b.dtype(v), {sequences, tokens, heads, width});
  const Value mixed = b.call("biased_attention", r.path() + ".average",
                             {{"scale", 1.0},
                              {"q", none},
                              {"k", none},
                              {"v", b.reshape(v, {sequences, tokens, heads, width})},
                              {"bias", fold::biases(b, r, ".biases", rows, tokens, tokens)}});
  const Value gate = fold::product(b, r, ".linear_g", b.slice(r["vg"], 0, all, all), n);
  const Value gated =
      fold::gated(b, r, ".gated", gate, b.reshape(mixed, {sequences * tokens, all}));
  b.call("linear", r.path() + ".linear_o",
         {{"weight", r["o"]}, {"x", gated}, {"out", fold::by_rows(b, r["out"])}});
}

FK_BLOCK(pair_weighted_average, expand_pair_weighted_average);

}  // namespace
}  // namespace fk
