// SPDX-License-Identifier: Apache-2.0
// triangle_multiplication: gated products, channels first, and matmul_nt for each channel.
#include "baselines/blocks/fold/fold.hpp"

namespace fk {
namespace {

void expand_triangle_multiplication(Builder& b, const Region& r) {
  const int64_t hidden = r.integer("intermediate_size");
  const Expr tokens = b.shape(r["z"])[0], pairs = tokens * tokens;
  const Value n = fold::norm(b, r, ".layer_norm_in", "norm", r["z"]);
  const Value ab = b.call(
      "activation_and_mul", r.path() + ".ab.gated",
      {{"kind", "sigmoid"}, {"size", 2 * hidden}, {"x", fold::product(b, r, ".ab", r["ab"], n)}});
  Value all = b.call("transpose", r.path() + ".channels_first",
                     {{"x", b.reshape(ab, {1, pairs, 2 * hidden})}});
  all = b.reshape(all, {2 * hidden, tokens, tokens});
  if (!r.flag("outgoing")) all = b.call("transpose", r.path() + ".swapped", {{"x", all}});
  const Value p =
      b.call("matmul_nt", r.path() + ".triangle",
             {{"x", b.slice(all, 0, 0, hidden)}, {"y", b.slice(all, 0, hidden, hidden)}});
  const Value last =
      b.call("transpose", r.path() + ".channels_last", {{"x", b.reshape(p, {1, hidden, pairs})}});
  const Value normed =
      fold::norm(b, r, ".layer_norm_out", "norm_out", b.reshape(last, {pairs, hidden}));
  fold::gated(b, r, ".out", fold::product(b, r, ".linear_g", r["gate"], n),
              fold::product(b, r, ".linear_z", r["o"], normed), {}, fold::by_rows(b, r["out"]));
}

FK_BLOCK(triangle_multiplication, expand_triangle_multiplication);

}  // namespace
}  // namespace fk
