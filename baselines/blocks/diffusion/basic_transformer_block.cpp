// SPDX-License-Identifier: Apache-2.0
// basic_transformer_block as layer_norm and context_attention, twice, layer_norm and geglu_mlp,
// each with a sum.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

Value basic_norm(Builder& b, const Region& r, const std::string& name, Value x) {
  return r.call(b, "layer_norm", "." + name,
                {{"weight", r[name + "_weight"]}, {"bias", r[name + "_bias"]}, {"x", x}});
}

// `context`: absent where the pixels see each other.
Value basic_attention(Builder& b, const Region& r, const std::string& name, Value x,
                      Value context) {
  return r.call(b, "context_attention", "." + name,
                {{"q", r[name + "_q"]},
                 {"kv", r[name + "_kv"]},
                 {"o", r[name + "_o"]},
                 {"o_bias", r[name + "_o_bias"]},
                 {"x", x},
                 {"context", context ? context : x}});
}

void expand_basic_transformer_block(Builder& b, const Region& r) {
  const Dims image = b.shape(r["x"]), rows = {image[0] * image[1], image[2]};
  const auto sum = [&](const std::string& name, Value x, Value y, Value out) {
    Args args = {{"a", x}, {"b", b.reshape(y, rows)}};
    if (out) args.emplace_back("out", b.reshape(out, rows));
    return Value(b.call("add", r.path() + "." + name, args));
  };
  Value x = b.reshape(r["x"], rows);
  Value normed = b.reshape(basic_norm(b, r, "norm1", x), image);
  x = sum("sum1", x, basic_attention(b, r, "attn1", normed, {}), {});
  normed = b.reshape(basic_norm(b, r, "norm2", x), image);
  x = sum("sum2", x, basic_attention(b, r, "attn2", normed, r["context"]), {});
  const Value wide = r.call(b, "geglu_mlp", ".ff", {{"x", basic_norm(b, r, "norm3", x)}});
  sum("sum3", x, wide, r["out"]);
}

FK_BLOCK(basic_transformer_block, expand_basic_transformer_block);

}  // namespace
}  // namespace fk
