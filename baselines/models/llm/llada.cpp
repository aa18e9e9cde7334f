// SPDX-License-Identifier: Apache-2.0
// LLaDA 8B: a masked diffusion model. Llama's layers without a causal mask; every step sees the
// whole sequence, prompt and masks. Checkpoint names are those of OLMo, which its code comes from.
#include <algorithm>

#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/engines/masked_diffusion/engine.hpp"

namespace fk {
namespace {

using namespace parts;

struct LladaConfig {
  DecoderConfig decoder;
  MaskedDiffusionOptions diffusion;
};

DecoderConfig read_sizes(const Config& config) {
  const std::string path = "model.transformer";
  DecoderConfig d;
  d.names = {path + ".wte",    path + ".blocks",     path + ".ln_f",
             path + ".ff_out", path + ".rotary_emb", path + ".rows"};
  d.hidden_size = read_size(config, "d_model");
  const int64_t ratio = read_count(config, "mlp_ratio");
  d.intermediate_size = config.has("mlp_hidden_size")
                            ? read_size(config, "mlp_hidden_size")
                            : bounded(config, "mlp_ratio", ratio * d.hidden_size, kSizeMax);
  d.layers = read_count(config, "n_layers");
  d.windows.assign(static_cast<size_t>(d.layers), 0);
  d.heads = read_count(config, "n_heads");
  d.kv_heads = config.integer("n_kv_heads", d.heads);
  if (d.kv_heads < 1 || d.heads % d.kv_heads != 0)
    config.fail_at("n_kv_heads", "it does not divide n_heads");
  if (d.hidden_size % d.heads != 0) config.fail_at("n_heads", "it does not divide d_model");
  d.head_dim = d.hidden_size / d.heads;
  if (d.head_dim % 2 != 0) config.fail_at("n_heads", "the head width is odd");
  const int64_t tokens = read_size(config, "vocab_size");
  // The table may have more rows than the vocabulary.
  d.vocab_size = config.has("embedding_size") ? read_size(config, "embedding_size") : tokens;
  d.max_position = read_size(config, "max_sequence_length");
  d.eps = config.number("rms_norm_eps");
  d.rope.rotary_dim = d.head_dim;
  d.rope.theta = config.number("rope_theta");
  if (!(d.rope.theta > 0)) config.fail_at("rope_theta", "it is not positive");
  return d;
}

LladaConfig read_llada(const Config& config) {
  LladaConfig c;
  c.decoder = read_sizes(config);
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
  d.vocabulary = c.decoder.vocab_size;
  d.positions = c.decoder.max_position;
  d.mask_token = config.integer("mask_token_id");
  if (d.mask_token < 0 || d.mask_token >= c.decoder.vocab_size)
    config.fail_at("mask_token_id", "it is outside the vocabulary");
  d.block_length =
      bounded(config, "block_length", config.integer("block_length"), c.decoder.max_position);
  d.block_steps =
      bounded(config, "block_steps", config.integer("block_steps", d.block_length), kCountMax);
  return c;
}

class Llada : public Model {
 public:
  explicit Llada(const Config& config) : config_(read_llada(config)) {}

  std::unique_ptr<Engine> engine() const override {
    return masked_diffusion_engine(config_.diffusion);
  }

  void forward(Net& n, const std::string&) const override {
    const DecoderConfig& c = config_.decoder;
    DecoderStep step;
    step.tokens = n.axis("T");
    step.requests = n.axis("B");
    n.rename({{"self_attn.o_proj", "attn_out"},
              {"self_attn", ""},
              {"mlp.gate_proj", "ff_proj"},
              {"mlp.down_proj", "ff_out"},
              {"mlp", ""},
              {"input_layernorm", "attn_norm"},
              {"post_attention_layernorm", "ff_norm"}});
    n.common({{"positions", n.input("positions", DType::i64, {step.tokens})},
              {"cu_seqlens", n.input("cu_seqlens", DType::i32, {step.requests + 1})},
              {"max_seqlen", Expr::min(step.tokens, n.limits().max_context)}});
    begin_attention(n, c);
    step.residual = n.zeros(n.limits().dtype, {step.tokens, c.hidden_size});
    look_up(n, step, c);
    for (int64_t i = 0; i < c.layers; ++i)
      record_layer(n, "bidirectional_decoder_layer", step, c, i);
    step.rows_count = n.axis("Q");
    const Sampled s = sample_rows(n, step, end_layers(n, step, c), c);
    // The model's certainty of each token.
    n.output("logprob",
             n("token_logprob", "confidence", {{"logits", s.logits}, {"tokens", s.tokens}}));
  }

 private:
  LladaConfig config_;
};

std::unique_ptr<Model> make_llada(const Config& config) { return std::make_unique<Llada>(config); }

FK_MODEL(llada, make_llada, {"LLaDAModelLM"}, {"llada"},
         {"alibi_bias_max", "attention_layer_norm_with_affine", "block_group_size",
          "flash_attention", "init_cutoff_factor", "init_device", "init_fn", "init_std",
          "precision", "rope_full_precision"});

}  // namespace
}  // namespace fk
