// SPDX-License-Identifier: Apache-2.0
// LLaDA 8B: a masked diffusion model. Llama's layers without a causal mask; every step sees the
// whole sequence, prompt and masks. Checkpoint names are those of OLMo, which its code comes from.
#include <algorithm>
#include <cmath>

#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

using namespace parts;

struct LladaConfig {
  int64_t channels = 0, hidden = 0, layers = 0, heads = 0, kv_heads = 0, width = 0;
  int64_t vocab_size = 0, max_position = 0;
  double eps = 0;
  Rope rope;
  MaskedDiffusionOptions diffusion;
};

LladaConfig read_llada(const Config& config) {
  LladaConfig c;
  c.channels = read_size(config, "d_model");
  const int64_t ratio = read_count(config, "mlp_ratio");
  c.hidden = config.has("mlp_hidden_size")
                 ? read_size(config, "mlp_hidden_size")
                 : bounded(config, "mlp_ratio", ratio * c.channels, kSizeMax);
  c.layers = read_count(config, "n_layers");
  c.heads = read_count(config, "n_heads");
  c.kv_heads = config.integer("n_kv_heads", c.heads);
  if (c.kv_heads < 1 || c.heads % c.kv_heads != 0)
    config.fail_at("n_kv_heads", "it does not divide n_heads");
  if (c.channels % c.heads != 0) config.fail_at("n_heads", "it does not divide d_model");
  c.width = c.channels / c.heads;
  if (c.width % 2 != 0) config.fail_at("n_heads", "the head width is odd");
  const int64_t tokens = read_size(config, "vocab_size");
  // The table may have more rows than there are tokens.
  c.vocab_size = config.has("embedding_size") ? read_size(config, "embedding_size") : tokens;
  c.max_position = read_size(config, "max_sequence_length");
  c.eps = config.number("rms_norm_eps");
  c.rope.rotary_dim = c.width;
  c.rope.theta = config.number("rope_theta");
  if (!(c.rope.theta > 0)) config.fail_at("rope_theta", "it is not positive");
  need_text(config, "activation_type", "silu");
  need_text(config, "block_type", "llama");
  need_text(config, "layer_norm_type", "rms");
  need_boolean(config, {"rope", "layer_norm_with_affine"}, true);
  need_boolean(
      config,
      {"alibi", "attention_layer_norm", "bias_for_layer_norm", "include_bias", "include_qkv_bias",
       "input_emb_norm", "multi_query_attention", "scale_logits", "weight_tying"},
      false);
  MaskedDiffusionOptions& d = c.diffusion;
  d.mask_token = config.integer("mask_token_id");
  if (d.mask_token < 0 || d.mask_token >= c.vocab_size)
    config.fail_at("mask_token_id", "it is outside the vocabulary");
  d.block_length = bounded(config, "block_length", config.integer("block_length"), c.max_position);
  d.block_steps =
      bounded(config, "block_steps", config.integer("block_steps", d.block_length), kCountMax);
  return c;
}

std::string block_path(int64_t layer) {
  return "model.transformer.blocks." + std::to_string(layer);
}

class Llada : public Model {
 public:
  explicit Llada(const Config& config) : config_(read_llada(config)) {}

  std::vector<std::string> phases() const override { return {"denoise"}; }
  bool generates() const override { return true; }
  bool predicts_next() const override { return false; }

  void forward(Builder& b, const std::string&, const Limits& limits) const override {
    const Expr tokens = b.axis("T"), requests = b.axis("B");
    const Value ids = b.input("ids", DType::i64, {tokens});
    const Value hidden = b.call("embedding", "model.transformer.wte",
                                {{"num_embeddings", config_.vocab_size},
                                 {"embedding_dim", config_.channels},
                                 {"table", b.weight(table(limits))},
                                 {"ids", ids},
                                 {"out", b.empty(limits.dtype, {tokens, config_.channels})}});
    const Value residual = b.zeros(limits.dtype, {tokens, config_.channels});
    const Args shared{{"positions", b.input("positions", DType::i64, {tokens})},
                      {"cu_seqlens", b.input("cu_seqlens", DType::i32, {requests + 1})},
                      {"max_seqlen", Expr::min(tokens, limits.max_context)},
                      {"max_position", positions(limits)},
                      {"cos_sin_cache", b.weight(angles(limits))},
                      {"hidden", hidden},
                      {"residual", residual}};
    for (int64_t i = 0; i < config_.layers; ++i) {
      b.tap("hidden." + std::to_string(i), {hidden, residual});
      Args args = layer_args(b, limits, i);
      args.insert(args.end(), shared.begin(), shared.end());
      b.call("bidirectional_decoder_layer", block_path(i), args);
    }
    choose(b, limits, hidden, residual);
  }

  void drive(Session& session) const override { diffuse(session, config_.diffusion); }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    const int64_t tokens = std::max(limits.chunk_tokens, limits.max_context);
    const int64_t block = config_.diffusion.block_length;
    if (axis == "T") return tokens;
    if (axis == "B") return limits.max_batch;
    if (axis == "Q")
      return std::max(block, std::min(tokens, std::max(kPrefillRows, limits.max_batch * block)));
    fail("phase " + phase, "there is no axis `" + axis + "`", did_you_mean(axis, {"T", "B", "Q"}));
  }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.max_position; }

 private:
  int64_t positions(const Limits& limits) const {
    return std::min(config_.max_position, limits.max_context);
  }

  WeightSpec table(const Limits& limits) const {
    WeightSpec spec = matrix("model.transformer.wte.weight", limits.weights(),
                             {config_.vocab_size, config_.channels}, {});
    spec.stddev = 1;
    return spec;
  }

  WeightSpec angles(const Limits& limits) const {
    WeightSpec spec;
    spec.name = "model.transformer.rotary_emb.cos_sin_cache";
    spec.shape = {positions(limits), config_.rope.rotary_dim};
    spec.compute = [rope = config_.rope, count = positions(limits)] {
      return rope_table(rope, count);
    };
    return spec;
  }

  Args layer_args(Builder& b, const Limits& limits, int64_t layer) const {
    const std::string path = block_path(layer) + ".";
    const int64_t channels = config_.channels, width = config_.width;
    const auto weight = [&](const char* name, int64_t rows, int64_t columns,
                            const std::vector<std::string>& parts) {
      std::vector<std::string> names;
      for (const auto& part : parts) names.push_back(path + part + ".weight");
      return b.weight(matrix(path + name + ".weight", limits.weights(), {rows, columns}, names));
    };
    const auto norm = [&](const char* name) {
      return b.weight(norm_weight(path + name + ".weight", limits.weights(), channels));
    };
    return {
        {"hidden_size", channels},
        {"intermediate_size", config_.hidden},
        {"num_heads", config_.heads},
        {"num_kv_heads", config_.kv_heads},
        {"head_dim", width},
        {"rotary_dim", width},
        {"scale", 1 / std::sqrt(static_cast<double>(width))},
        {"eps", config_.eps},
        {"input_norm", norm("attn_norm")},
        {"qkv", weight("qkv_proj", (config_.heads + 2 * config_.kv_heads) * width, channels,
                       {"q_proj", "k_proj", "v_proj"})},
        {"o", weight("attn_out", channels, config_.heads * width, {})},
        {"post_norm", norm("ff_norm")},
        {"gate_up", weight("gate_up_proj", 2 * config_.hidden, channels, {"ff_proj", "up_proj"})},
        {"down", weight("ff_out", channels, config_.hidden, {})}};
  }

  // Final norm, logits of the wanted rows, a token for each and how sure the model is of it.
  void choose(Builder& b, const Limits& limits, Value hidden, Value residual) const {
    const int64_t channels = config_.channels, vocab = config_.vocab_size;
    const std::string path = "model.transformer.";
    const Expr count = b.axis("Q");
    const Value x =
        b.call("rms_norm", path + "ln_f",
               {{"hidden_size", channels},
                {"eps", config_.eps},
                {"weight", b.weight(norm_weight(path + "ln_f.weight", limits.weights(), channels))},
                {"x", hidden},
                {"residual", residual}});
    b.tap("hidden." + std::to_string(config_.layers), {x});
    const Value rows =
        b.call("gather_rows", path + "rows",
               {{"size", channels}, {"x", x}, {"rows", b.input("rows", DType::i32, {count})}});
    const Value logits =
        b.call("linear", path + "ff_out",
               {{"in_features", channels},
                {"out_features", vocab},
                {"weight",
                 b.weight(matrix(path + "ff_out.weight", limits.weights(), {vocab, channels}, {}))},
                {"x", rows},
                {"out", b.empty(DType::f32, {count, vocab})}});
    const auto per_row = [&](const char* name, DType dtype) {
      return b.input(name, dtype, {count});
    };
    const Value tokens = b.call("sample_tokens", "sampler",
                                {{"vocab_size", vocab},
                                 {"logits", logits},
                                 {"temperature", per_row("temperature", DType::f32)},
                                 {"top_k", per_row("top_k", DType::i32)},
                                 {"top_p", per_row("top_p", DType::f32)},
                                 {"uniform", per_row("uniform", DType::f32)}});
    const Value logprob = b.call("token_logprob", "confidence",
                                 {{"vocab_size", vocab}, {"logits", logits}, {"tokens", tokens}});
    b.output("logits", logits);
    b.output("tokens", tokens);
    b.output("logprob", logprob);
  }

  LladaConfig config_;
};

std::unique_ptr<Model> make_llada(const Config& config) { return std::make_unique<Llada>(config); }

FK_MODEL(llada, make_llada, {"LLaDAModelLM"}, {"llada"},
         {"alibi_bias_max", "attention_layer_norm_with_affine", "block_group_size",
          "flash_attention", "init_cutoff_factor", "init_device", "init_fn", "init_std",
          "precision", "rope_full_precision"});

}  // namespace
}  // namespace fk
