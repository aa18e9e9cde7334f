// SPDX-License-Identifier: Apache-2.0
// window_attention as products, l2_norm and biased_attention. Biases are an MLP of distances, whose
// rows gather_rows takes for each pair of tokens.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

// [1, H, T, T]
Value window_biases(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), tokens = r.integer("window_tokens");
  const Value wide = b.call("linear", r.path() + ".place.0",
                            {{"in_features", 2},
                             {"out_features", r.integer("place_size")},
                             {"weight", r["place1"]},
                             {"bias", r["place1_bias"]},
                             {"x", r["places"]}});
  const Value active = b.call("activation", r.path() + ".place.1", {{"kind", "relu"}, {"x", wide}});
  const Value logits = b.call("linear", r.path() + ".place.2",
                              {{"in_features", r.integer("place_size")},
                               {"out_features", heads},
                               {"weight", r["place2"]},
                               {"x", active}});
  const Value shares =
      b.call("activation", r.path() + ".place.3", {{"kind", "sigmoid"}, {"x", logits}});
  const Value table = b.call("scaled_add", r.path() + ".place.4", {{"scale", 16.0}, {"y", shares}});
  const Value pairs =
      b.call("gather_rows", r.path() + ".place.pairs", {{"x", table}, {"rows", r["pairs"]}});
  const Value by_head = b.call("transpose", r.path() + ".place.heads",
                               {{"x", b.reshape(pairs, {1, tokens * tokens, heads})}});
  return b.reshape(by_head, {1, heads, tokens, tokens});
}

void expand_window_attention(Builder& b, const Region& r) {
  const int64_t heads = r.integer("num_heads"), width = r.integer("head_dim"), all = heads * width;
  const Dims x = b.shape(r["x"]);
  const Dims rows = {x[0] * x[1], x[2]};
  const auto part = [&](const char* name, int64_t first, int64_t count) -> Value {
    return r.call(b, "linear", name,
                  {{"out_features", count},
                   {"weight", b.slice(r["qkv"], 0, first, count)},
                   {"bias", r["qkv_bias"] ? b.slice(r["qkv_bias"], 0, first, count) : Value{}},
                   {"x", b.reshape(r["x"], rows)}});
  };
  const Value qk =
      b.call("l2_norm", r.path() + ".cosine",
             {{"x", b.reshape(part(".qk", 0, 2 * all), {rows[0] * (2 * heads), width})}});
  const Value both = b.reshape(qk, {x[0], x[1], 2 * heads, width});
  const Value mixed =
      b.call("biased_attention", r.path() + ".attn",
             {{"num_heads", heads},
              {"num_kv_heads", heads},
              {"head_dim", width},
              {"scale", 1.0},
              {"q", b.slice(both, 2, 0, heads)},
              {"k", b.slice(both, 2, heads, heads)},
              {"v", b.reshape(part(".v", 2 * all, all), {x[0], x[1], heads, width})},
              {"bias", window_biases(b, r)},
              {"mask", r["mask"]},
              {"head_scale", r["head_scale"]}});
  r.call(b, "linear", ".out",
         {{"weight", r["o"]},
          {"bias", r["o_bias"]},
          {"x", b.reshape(mixed, {rows[0], all})},
          {"out", b.reshape(r["out"], rows)}});
}

FK_BLOCK(window_attention, expand_window_attention);

}  // namespace
}  // namespace fk
