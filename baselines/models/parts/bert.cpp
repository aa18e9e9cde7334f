// SPDX-License-Identifier: Apache-2.0
// Checkpoint names are those of transformers' BertModel behind a prefix.
#include "baselines/models/parts/bert.hpp"

#include <algorithm>
#include <cmath>

#include "baselines/models/parts/gelu.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk::parts {

namespace {

// Declares weights by checkpoint name, with the gains of random ones.
struct BertWeights {
  Builder& b;
  DType dtype;
  std::string prefix;

  Value make(const std::string& name, std::vector<int64_t> shape, double mean, double stddev,
             const std::vector<std::string>& concatenated = {}) const {
    WeightSpec spec;
    spec.name = prefix + name;
    spec.dtype = dtype;
    spec.shape = std::move(shape);
    spec.mean = mean;
    spec.stddev = stddev;
    if (!concatenated.empty()) {
      spec.parts.emplace_back();
      for (const auto& part : concatenated) spec.parts[0].push_back(prefix + part);
    }
    return b.weight(std::move(spec));
  }
  Value table(const std::string& name, int64_t rows, int64_t channels) const {
    return make(name, {rows, channels}, 0, 1);
  }
  Value matrix(const std::string& name, int64_t out, int64_t in) const {
    return make(name + ".weight", {out, in}, 0, 0);
  }
  Value bias(const std::string& name, int64_t size) const {
    return make(name + ".bias", {size}, 0, 0.1);
  }
  Value gain(const std::string& name, int64_t size) const {
    return make(name + ".weight", {size}, 1, 0.2);
  }
};

Args layer_args(const BertWeights& w, const BertConfig& config, const std::string& path) {
  const int64_t channels = config.hidden_size, hidden = config.intermediate_size;
  const std::string self = path + ".attention.self.", after = path + ".attention.output.";
  const auto names = [&](const char* kind) {
    return std::vector<std::string>{self + "query" + kind, self + "key" + kind,
                                    self + "value" + kind};
  };
  const int64_t width = channels / config.heads;
  return {{"hidden_size", channels},
          {"num_heads", config.heads},
          {"head_dim", width},
          {"scale", 1 / std::sqrt(static_cast<double>(width))},
          {"intermediate_size", hidden},
          {"approximate", config.approximate},
          {"eps", config.eps},
          {"qkv", w.make(self + "qkv.weight", {3 * channels, channels}, 0, 0, names(".weight"))},
          {"qkv_bias", w.make(self + "qkv.bias", {3 * channels}, 0, 0.1, names(".bias"))},
          {"o", w.matrix(after + "dense", channels, channels)},
          {"o_bias", w.bias(after + "dense", channels)},
          {"attn_norm_weight", w.gain(after + "LayerNorm", channels)},
          {"attn_norm_bias", w.bias(after + "LayerNorm", channels)},
          {"fc1", w.matrix(path + ".intermediate.dense", hidden, channels)},
          {"fc1_bias", w.bias(path + ".intermediate.dense", hidden)},
          {"fc2", w.matrix(path + ".output.dense", channels, hidden)},
          {"fc2_bias", w.bias(path + ".output.dense", channels)},
          {"mlp_norm_weight", w.gain(path + ".output.LayerNorm", channels)},
          {"mlp_norm_bias", w.bias(path + ".output.LayerNorm", channels)}};
}

}  // namespace

BertConfig read_bert(const Config& config) {
  BertConfig c;
  c.hidden_size = read_size(config, "hidden_size");
  c.intermediate_size = read_size(config, "intermediate_size");
  c.layers = read_count(config, "num_hidden_layers");
  c.heads = read_count(config, "num_attention_heads");
  c.vocab_size = read_size(config, "vocab_size");
  c.max_position = read_size(config, "max_position_embeddings");
  c.type_vocab_size = read_size(config, "type_vocab_size");
  c.eps = config.number("layer_norm_eps");
  c.approximate = read_gelu(config, "hidden_act");
  if (c.hidden_size % c.heads != 0)
    config.fail_at("num_attention_heads", "it does not divide hidden_size");
  need_text(config, "position_embedding_type", "absolute");
  need_boolean(config, {"is_decoder", "add_cross_attention"}, false);
  return c;
}

Value record_bert(Builder& b, const BertConfig& config, const Limits& limits) {
  const Expr tokens = b.axis("T"), requests = b.axis("B");
  const int64_t channels = config.hidden_size;
  const BertWeights w{b, limits.weights(), config.prefix};
  const std::string embed = "embeddings.";
  const auto input = [&](const char* name) { return b.input(name, DType::i64, {tokens}); };
  const Value cu_seqlens = b.input("cu_seqlens", DType::i32, {requests + 1});
  Value x = b.call(
      "bert_embedding", config.prefix + "embeddings",
      {{"vocab_size", config.vocab_size},
       {"hidden_size", channels},
       {"max_position", config.max_position},
       {"type_vocab_size", config.type_vocab_size},
       {"eps", config.eps},
       {"word", w.table(embed + "word_embeddings.weight", config.vocab_size, channels)},
       {"position", w.table(embed + "position_embeddings.weight", config.max_position, channels)},
       {"type", w.table(embed + "token_type_embeddings.weight", config.type_vocab_size, channels)},
       {"norm_weight", w.gain(embed + "LayerNorm", channels)},
       {"norm_bias", w.bias(embed + "LayerNorm", channels)},
       {"ids", input("ids")},
       {"positions", input("positions")},
       {"types", input("types")},
       {"out", b.empty(limits.dtype, {tokens, channels})}});
  b.tap("hidden.0", {x});
  for (int64_t i = 0; i < config.layers; ++i) {
    const std::string path = "encoder.layer." + std::to_string(i);
    Args args = layer_args(w, config, path);
    args.emplace_back("x", x);
    args.emplace_back("cu_seqlens", cu_seqlens);
    args.emplace_back("max_seqlen", Expr::min(tokens, limits.max_context));
    x = b.call("encoder_layer", config.prefix + path, args);
    b.tap("hidden." + std::to_string(i + 1), {x});
  }
  return x;
}

int64_t encoder_axis_limit(const std::string& phase, const std::string& axis,
                           const Limits& limits) {
  if (axis == "T") return std::max(limits.chunk_tokens, limits.max_context);
  if (axis == "B") return limits.max_batch;
  fail("phase " + phase, "there is no axis `" + axis + "`", did_you_mean(axis, {"T", "B"}));
}

}  // namespace fk::parts
