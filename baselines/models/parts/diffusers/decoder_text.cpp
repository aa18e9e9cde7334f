// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/diffusers/decoder_text.hpp"

#include <fmt/format.h>

#include <cmath>

#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

namespace {

// Cosines, or sines, of all channels of a head; halves share angles.
Value text_turns(Net& n, const std::string& path, const DecoderText& c, int64_t tokens,
                 bool sines) {
  const int64_t width = c.head_dim(), half = width / 2;
  return computed(n, path + (sines ? ".sin" : ".cos"), DType::f32, {tokens, width},
                  [tokens, width, half, sines, theta = c.theta] {
                    std::vector<double> all;
                    for (int64_t t = 0; t < tokens; ++t)
                      for (int64_t i = 0; i < width; ++i) {
                        const double share =
                            static_cast<double>(i % half) / static_cast<double>(half);
                        const double angle = static_cast<double>(t) * std::pow(theta, -share);
                        all.push_back(sines ? std::sin(angle) : std::cos(angle));
                      }
                    return all;
                  });
}

// [B, S, S]: a token sees itself and earlier tokens which are not hidden.
Value causal_rows(Net& n, const std::string& path, Value hidden, int64_t tokens) {
  const Expr batch = n.shape(hidden)[0];
  const Value same = n.empty(DType::f32, {batch, tokens, 1, tokens});
  n("resize2d", path + ".rows",
    {{"mode", "nearest"}, {"x", n.reshape(hidden, {batch, 1, 1, tokens})}, {"out", same}});
  const Value later = computed(n, path + ".later", DType::f32, {1, tokens * tokens}, [tokens] {
    std::vector<double> all(static_cast<size_t>(tokens * tokens));
    for (int64_t i = 0; i < tokens * tokens; ++i)
      all[static_cast<size_t>(i)] = i % tokens > i / tokens ? kUnseenKey : 0;
    return all;
  });
  const Value mask =
      n("modulate", path, {{"x", n.reshape(same, {1, batch, tokens * tokens})}, {"shift", later}});
  return n.reshape(mask, {batch, tokens, tokens});
}

}  // namespace

DecoderText read_decoder_text(const Config& config) {
  DecoderText c;
  c.hidden = read_size(config, "hidden_size");
  c.layers = read_count(config, "num_hidden_layers");
  c.heads = read_count(config, "num_attention_heads");
  c.kv_heads = read_count(config, "num_key_value_heads");
  if (c.hidden % c.heads != 0 || c.head_dim() % 2 != 0)
    config.fail_at("num_attention_heads", "a head must have an even number of channels");
  if (c.heads % c.kv_heads != 0)
    config.fail_at("num_key_value_heads", "it must divide num_attention_heads");
  c.mlp = read_size(config, "intermediate_size");
  c.vocabulary = bounded(config, "vocab_size", config.integer("vocab_size"), 1 << 24);
  need_text(config, "hidden_act", "silu");
  need_boolean(config, {"use_sliding_window"}, false);
  c.eps = config.number("rms_norm_eps");
  // Tokens of texts have the same place on all axes.
  const Config rope = config.child("rope_parameters");
  rope.ignore("mrope_section");
  need_text(rope, "rope_type", "default");
  c.theta = rope.number("rope_theta");
  if (!(c.theta > 0)) rope.fail_at("rope_theta", "it must be above 0");
  for (const char* key : {"architectures", "model_type", "max_window_layers", "sliding_window"})
    config.ignore(key);
  return c;
}

Value hidden_keys(Net& n, const std::string& path, Value seen) {
  const Dims shape = n.shape(seen);
  const Value shift =
      computed(n, path + ".shift", DType::f32, {1, shape[1].value()}, [width = shape[1].value()] {
        return std::vector<double>(static_cast<size_t>(width), kUnseenKey);
      });
  const Value keys = n(
      "modulate", path,
      {{"offset", -kUnseenKey}, {"x", n.reshape(seen, {1, shape[0], shape[1]})}, {"shift", shift}});
  return n.reshape(keys, shape);
}

Value decoder_states(Net& n, const std::string& path, const DecoderText& c, int64_t layers,
                     Value tokens, Value hidden) {
  const Dims texts = n.shape(tokens);
  const int64_t each = texts[1].value(), width = c.head_dim();
  const int64_t both = c.heads + 2 * c.kv_heads;
  const Expr rows = texts[0] * each;
  const Value mask = causal_rows(n, path + ".mask", hidden, each);
  const Value cos = text_turns(n, path, c, each, false), sin = text_turns(n, path, c, each, true);
  const Value residual = n.zeros(n.limits().dtype, {rows, c.hidden});
  Value x = n("embedding", path + ".embed_tokens",
              {{"num_embeddings", c.vocabulary},
               {"embedding_dim", c.hidden},
               {"ids", n.reshape(tokens, {rows})},
               {"out", std::string(name(n.limits().dtype))}});
  const auto normed = [&](const std::string& at) {
    return Value(n("rms_norm", at, {{"eps", c.eps}, {"x", x}, {"residual", residual}})["out"]);
  };
  for (int64_t i = 0; i < layers; ++i) {
    const std::string at = fmt::format("{}.layers.{}", path, i), attention = at + ".self_attn";
    const auto part = [&](const char* kind, std::vector<int64_t> shape, double stddev) {
      WeightSpec spec;
      spec.name = attention + ".qkv_proj." + kind;
      spec.dtype = n.limits().weights();
      spec.shape = std::move(shape);
      spec.stddev = stddev;
      spec.parts = {{}};
      for (const char* of : {".q_proj.", ".k_proj.", ".v_proj."})
        spec.parts[0].push_back(attention + of + kind);
      return n.weight(std::move(spec));
    };
    const Value qkv = n("linear", attention + ".qkv_proj",
                        {{"weight", part("weight", {both * width, c.hidden}, 0)},
                         {"bias", part("bias", {both * width}, 0.1)},
                         {"x", normed(at + ".input_layernorm")}});
    const Value by_head = n.reshape(qkv, {rows, both, width});
    n("rotary_rows", attention + ".rope",
      {{"num_heads", c.heads},
       {"num_kv_heads", c.kv_heads},
       {"head_dim", width},
       {"rotary_dim", width},
       {"q", n.slice(by_head, 1, 0, c.heads)},
       {"k", n.slice(by_head, 1, c.heads, c.kv_heads)},
       {"cos", cos},
       {"sin", sin}});
    const Value by_text = n.reshape(qkv, {texts[0], each, both, width});
    const Value mixed = n("biased_attention", attention,
                          {{"num_heads", c.heads},
                           {"num_kv_heads", c.kv_heads},
                           {"head_dim", width},
                           {"scale", 1 / std::sqrt(static_cast<double>(width))},
                           {"q", n.slice(by_text, 2, 0, c.heads)},
                           {"k", n.slice(by_text, 2, c.heads, c.kv_heads)},
                           {"v", n.slice(by_text, 2, c.heads + c.kv_heads, c.kv_heads)},
                           {"mask", mask}});
    x = n("linear", attention + ".o_proj",
          {{"out_features", c.hidden}, {"x", n.reshape(mixed, {rows, c.heads * width})}});
    x = n("gated_mlp", at + ".mlp",
          {{"intermediate_size", c.mlp}, {"x", normed(at + ".post_attention_layernorm")}});
    n.tap(fmt::format("{}.{}", path, i), {residual, x});
  }
  return n("add", path + ".states", {{"a", residual}, {"b", x}});
}

}  // namespace fk::parts
