// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/diffusers/t5_text.hpp"

#include <algorithm>
#include <cmath>

#include "baselines/models/parts/image.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

namespace {

// A matrix [rows, columns] whose rows are those of several tensors below `path`.
Value rows_of_parts(Net& n, const std::string& path, const std::string& name,
                    const std::vector<std::string>& parts, int64_t rows, int64_t columns,
                    double stddev) {
  WeightSpec spec;
  spec.name = path + name + ".weight";
  spec.dtype = n.limits().weights();
  spec.shape = {rows, columns};
  spec.stddev = stddev;
  for (const auto& part : parts) {
    if (spec.parts.empty()) spec.parts.emplace_back();
    spec.parts[0].push_back(path + part + ".weight");
  }
  return n.weight(std::move(spec));
}

// [1, H, S, S]: what the score of a query (third axis) and a key (last axis) gains.
Value distance_bias(Net& n, const std::string& path, const T5Text& c, int64_t tokens) {
  const Value kinds = computed(n, path + ".distances", DType::i64, {tokens * tokens}, [c, tokens] {
    std::vector<double> all;
    for (int64_t query = 0; query < tokens; ++query)
      for (int64_t key = 0; key < tokens; ++key)
        all.push_back(static_cast<double>(t5_bucket(key - query, c.buckets, c.farthest)));
    return all;
  });
  const Value rows = n("embedding", path + ".block.0.layer.0.SelfAttention.relative_attention_bias",
                       {{"num_embeddings", c.buckets},
                        {"embedding_dim", c.heads},
                        {"ids", kinds},
                        {"out", std::string(name(n.limits().dtype))}});
  const Value by_head = n("transpose", path + ".distance_bias",
                          {{"x", n.reshape(rows, {1, tokens * tokens, c.heads})}});
  return n.reshape(by_head, {1, c.heads, tokens, tokens});
}

// Unscaled attention. `bias` is that of distance_bias(). `mask` may be absent.
Value t5_attention(Net& n, const std::string& path, const T5Text& c, Value x, const Dims& texts,
                   Value bias, Value mask) {
  const int64_t all = c.heads * c.width;
  // Random weights give scores with a deviation of 1.
  const double stddev =
      1 / std::sqrt(static_cast<double>(c.hidden)) / std::pow(static_cast<double>(c.width), 0.25);
  const Value weight =
      rows_of_parts(n, path, ".qkv", {".q", ".k", ".v"}, 3 * all, c.hidden, stddev);
  const Value qkv =
      n("linear", path + ".qkv", {{"out_features", 3 * all}, {"x", x}, {"weight", weight}});
  const Value heads = n.reshape(qkv, {texts[0], texts[1], 3 * c.heads, c.width});
  const Value mixed = n("biased_attention", path,
                        {{"num_heads", c.heads},
                         {"num_kv_heads", c.heads},
                         {"head_dim", c.width},
                         {"scale", 1.0},
                         {"q", n.slice(heads, 2, 0, c.heads)},
                         {"k", n.slice(heads, 2, c.heads, c.heads)},
                         {"v", n.slice(heads, 2, 2 * c.heads, c.heads)},
                         {"bias", bias},
                         {"mask", mask}});
  return n("linear", path + ".o",
           {{"out_features", c.hidden}, {"x", n.reshape(mixed, {texts[0] * texts[1], all})}});
}

Value t5_mlp(Net& n, const std::string& path, const T5Text& c, Value x) {
  const Value fc1 = rows_of_parts(n, path, ".wi", {".wi_0", ".wi_1"}, 2 * c.mlp, c.hidden, 0);
  const Value fc2 = rows_of_parts(n, path, ".wo", {".wo"}, c.hidden, c.mlp, 0);
  return n("geglu_mlp", path,
           {{"intermediate_size", c.mlp},
            {"kind", "gelu_tanh"},
            {"fc1", fc1},
            {"fc1_bias", Value{}},
            {"fc2", fc2},
            {"fc2_bias", Value{}},
            {"x", x}});
}

}  // namespace

T5Text read_t5_text(const Config& config) {
  T5Text c;
  c.hidden = read_size(config, "d_model");
  c.layers = read_count(config, "num_layers");
  c.heads = read_count(config, "num_heads");
  c.width = read_count(config, "d_kv");
  c.mlp = read_size(config, "d_ff");
  c.vocabulary = bounded(config, "vocab_size", config.integer("vocab_size"), 1 << 24);
  c.buckets = bounded(config, "relative_attention_num_buckets",
                      config.integer("relative_attention_num_buckets", 32), kCountMax);
  if (c.buckets % 4 != 0)
    config.fail_at("relative_attention_num_buckets", "it must be a multiple of 4");
  c.farthest = bounded(config, "relative_attention_max_distance",
                       config.integer("relative_attention_max_distance", 128), kSizeMax);
  if (c.farthest <= c.buckets / 4)
    config.fail_at("relative_attention_max_distance",
                   "it must be above a quarter of relative_attention_num_buckets");
  c.eps = config.number("layer_norm_epsilon", 1e-6);
  need_text(config, "feed_forward_proj", "gated-gelu");
  need_text(config, "dense_act_fn", "gelu_new");
  need_boolean(config, {"is_gated_act"}, true);
  // They are of the decoder, of training, or of tokenizers.
  for (const char* key :
       {"architectures", "model_type", "decoder_start_token_id", "eos_token_id", "pad_token_id",
        "dropout_rate", "classifier_dropout", "is_encoder_decoder", "num_decoder_layers",
        "output_past", "tie_word_embeddings", "use_cache"})
    config.ignore(key);
  return c;
}

int64_t t5_bucket(int64_t distance, int64_t buckets, int64_t farthest) {
  // Half of the kinds are for keys behind the query; half of these are single distances.
  const int64_t side = buckets / 2, single = side / 2;
  const int64_t first = distance > 0 ? side : 0, size = distance < 0 ? -distance : distance;
  if (size < single) return first + size;
  // In float32, as the library computes it.
  const float share = std::log(static_cast<float>(size) / static_cast<float>(single)) /
                      std::log(static_cast<float>(farthest) / static_cast<float>(single));
  const auto step = static_cast<int64_t>(share * static_cast<float>(side - single));
  return first + std::min(single + step, side - 1);
}

Value t5_states(Net& n, const std::string& path, const T5Text& c, Value tokens, Value mask) {
  const Dims texts = n.shape(tokens);
  const Expr rows = texts[0] * texts[1];
  const std::string encoder = path + ".encoder";
  const Value bias = distance_bias(n, encoder, c, texts[1].value());
  const Value residual = n.zeros(n.limits().dtype, {rows, c.hidden});
  Value x = n("embedding", path + ".shared",
              {{"num_embeddings", c.vocabulary},
               {"embedding_dim", c.hidden},
               {"ids", n.reshape(tokens, {rows})},
               {"out", std::string(name(n.limits().dtype))}});
  const auto normed = [&](const std::string& at) {
    return Value(n("rms_norm", at, {{"eps", c.eps}, {"x", x}, {"residual", residual}})["out"]);
  };
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string block = fmt::format("{}.block.{}.layer.", encoder, i);
    x = t5_attention(n, block + "0.SelfAttention", c, normed(block + "0.layer_norm"), texts, bias,
                     mask);
    x = t5_mlp(n, block + "1.DenseReluDense", c, normed(block + "1.layer_norm"));
    n.tap(fmt::format("{}.{}", path, i), {residual, x});
  }
  return normed(encoder + ".final_layer_norm");
}

std::vector<Model::Unread> unread_t5(const std::string& path) {
  return {{path + ".encoder.embed_tokens.weight", "the embedding a second time"}};
}

}  // namespace fk::parts
