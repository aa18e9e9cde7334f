// SPDX-License-Identifier: Apache-2.0
// outer_product_mean: one product of all channels of all tokens, whose axes then change places.
#include "baselines/blocks/fold/fold.hpp"

namespace fk {
namespace {

void expand_outer_product_mean(Builder& b, const Region& r) {
  const Dims shape = b.shape(r["m"]);
  const Expr sequences = shape[0], tokens = shape[1];
  const int64_t hidden = r.integer("intermediate_size"), pair = r.integer("pair_size");
  const Value n = fold::norm(b, r, ".layer_norm", "norm", r["m"]);
  const auto swapped = [&](const std::string& path, Value x) {
    return Value(b.call("transpose", r.path() + path, {{"x", x}}));
  };
  const auto part = [&](const std::string& path, int64_t i) {
    return fold::product(b, r, path, b.slice(r["ab"], 0, i * hidden, hidden), n);
  };
  // Rows are channels of a and then tokens, and tokens and then channels of b.
  const Value a =
      swapped(".linear_1.channels", b.reshape(part(".linear_1", 0), {sequences, tokens, hidden}));
  const Value left = swapped(".linear_1.rows", b.reshape(a, {1, sequences, tokens * hidden}));
  const Value right =
      swapped(".linear_2.rows", b.reshape(part(".linear_2", 1), {1, sequences, tokens * hidden}));
  const Value outer = b.call("matmul_nt", r.path() + ".outer", {{"x", left}, {"y", right}});
  const Expr rest = tokens * tokens * hidden;
  const Value all = b.reshape(outer, {rest * hidden});
  const Value last = swapped(".outer.rows", b.reshape(all, {1, hidden, rest}));
  const Value weight = swapped(".linear_out.swapped", b.reshape(r["o"], {pair, hidden, hidden}));
  const Value y = fold::product(b, r, ".linear_out", b.reshape(weight, {pair, hidden * hidden}),
                                b.reshape(last, {tokens * tokens, hidden * hidden}), r["o_bias"]);
  constexpr double kOneMore = 1e-3;
  b.call("scaled_add", r.path() + ".mean",
         {{"scale", 1 / (static_cast<double>(r.integer("num_sequences")) + kOneMore)},
          {"y", y},
          {"out", fold::by_rows(b, r["out"])}});
}

FK_BLOCK(outer_product_mean, expand_outer_product_mean);

}  // namespace
}  // namespace fk
