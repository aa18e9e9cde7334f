// SPDX-License-Identifier: Apache-2.0
// prefix_decoder_layer as rms_norm, products, rotary_rows, biased_attention over kept and own keys,
// and a gated MLP in its parts. Sums are add.
#include "core/graph/builder.hpp"

namespace fk {
namespace {

Value prefix_rows_of(Builder& b, Value x) {
  const Dims shape = b.shape(x);
  return b.reshape(x, {shape[0] * shape[1], shape[2]});
}

// Keys or values of a request, kept ones first; new ones are a view of rows with gaps.
Value kept_and_own(Builder& b, const Region& r, const std::string& name, Value own) {
  const int64_t kept = r.integer("past_tokens");
  Args args = {{"prefix_rows", kept}, {"x", own}};
  if (kept > 0) args.emplace_back("before", r["past_" + name]);
  return b.call("prepend_rows", r.path() + "." + name + ".all", args);
}

Value prefix_attention(Builder& b, const Region& r, Value x) {
  const int64_t heads = r.integer("num_heads"), groups = r.integer("num_kv_heads"),
                width = r.integer("head_dim"), all = (heads + 2 * groups) * width;
  const Dims shape = b.shape(r["x"]);
  const Expr rows = shape[0] * shape[1];
  const Value qkv =
      b.call("linear", r.path() + ".self_attn.qkv_proj", {{"weight", r["qkv"]}, {"x", x}});
  const Value by_head = b.reshape(qkv, {rows, heads + 2 * groups, width});
  b.call("rotary_rows", r.path() + ".self_attn.rope",
         {{"num_heads", heads},
          {"num_kv_heads", groups},
          {"head_dim", width},
          {"rotary_dim", width},
          {"q", b.slice(by_head, 1, 0, heads)},
          {"k", b.slice(by_head, 1, heads, groups)},
          {"cos", r["cos"]},
          {"sin", r["sin"]}});
  const Value by_request = b.reshape(qkv, {shape[0], shape[1], all});
  const auto part = [&](const std::string& name, int64_t first) {
    const Value own = b.slice(by_request, 2, first * width, groups * width);
    b.call("prepend_rows", r.path() + "." + name,
           {{"prefix_rows", 0}, {"x", own}, {"out", r[name]}});
    const Value seen = kept_and_own(b, r, name, own);
    return b.reshape(seen, {shape[0], b.shape(seen)[1], groups, width});
  };
  const Value keys = part("keys", heads), values = part("values", heads + groups);
  const Value queries =
      b.slice(b.reshape(qkv, {shape[0], shape[1], heads + 2 * groups, width}), 2, 0, heads);
  const Value mixed = b.call("biased_attention", r.path() + ".self_attn",
                             {{"num_heads", heads},
                              {"num_kv_heads", groups},
                              {"head_dim", width},
                              {"scale", r.number("scale")},
                              {"q", queries},
                              {"k", keys},
                              {"v", values},
                              {"mask", r["mask"]}});
  return b.call("linear", r.path() + ".self_attn.o_proj",
                {{"weight", r["o"]}, {"x", b.reshape(mixed, {rows, heads * width})}});
}

void expand_prefix_decoder_layer(Builder& b, const Region& r) {
  const Value x = prefix_rows_of(b, r["x"]);
  const auto norm = [&](const char* path, const std::string& weight, Value of) {
    return b.call("rms_norm", r.path() + path,
                  {{"eps", r.number("eps")}, {"weight", r[weight]}, {"x", of}});
  };
  const Value mixed = prefix_attention(b, r, norm(".input_layernorm", "input_norm", x));
  const Value sum = b.call("add", r.path() + ".attention_sum", {{"a", x}, {"b", mixed}});
  const Value normed = norm(".post_attention_layernorm", "post_norm", sum);
  const Value wide =
      b.call("linear", r.path() + ".mlp.gate_up_proj", {{"weight", r["gate_up"]}, {"x", normed}});
  const Value hidden =
      b.call("activation_and_mul", r.path() + ".mlp.act_fn",
             {{"kind", "gelu_tanh"}, {"size", r.integer("intermediate_size")}, {"x", wide}});
  const Value down =
      b.call("linear", r.path() + ".mlp.down_proj", {{"weight", r["down"]}, {"x", hidden}});
  b.call("add", r.path() + ".mlp_sum",
         {{"a", sum}, {"b", down}, {"out", prefix_rows_of(b, r["out"])}});
}

FK_BLOCK(prefix_decoder_layer, expand_prefix_decoder_layer);

}  // namespace
}  // namespace fk
