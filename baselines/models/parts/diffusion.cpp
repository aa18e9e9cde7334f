// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/diffusion.hpp"

#include <algorithm>

#include "baselines/models/parts/description.hpp"
#include "baselines/models/parts/sizes.hpp"
#include "core/base/error.hpp"

namespace fk::parts {

namespace {

// Masked diffusion over layers of Llama's form. Every step sees the whole sequence.
class DiffusionDecoder final : public Model {
 public:
  explicit DiffusionDecoder(DecoderForm form) : form_(std::move(form)) {}

  std::unique_ptr<Engine> engine() const override {
    return masked_diffusion_engine(*form_.diffusion);
  }

  void forward(Net& n, const std::string&) const override {
    const DecoderConfig& c = form_.base;
    DecoderStep step;
    step.tokens = n.axis("T");
    step.requests = n.axis("B");
    n.rename(names());
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
  Net::Names names() const {
    return {{"self_attn.q_proj", form_.qkv.at(0)},
            {"self_attn.k_proj", form_.qkv.at(1)},
            {"self_attn.v_proj", form_.qkv.at(2)},
            {"self_attn.o_proj", form_.o},
            {"mlp.gate_proj", form_.up.at(0)},
            {"mlp.up_proj", form_.up.at(1)},
            {"mlp.down_proj", form_.down},
            {"input_layernorm", form_.before_attention},
            {"post_attention_layernorm", form_.before_mlp}};
  }

  const DecoderForm form_;
};

}  // namespace

void read_diffusion(const Config& description, const Config& config, DecoderForm& form) {
  if (!description.has("diffusion")) return;
  const Config keys = description.child("diffusion");
  const auto key = [&](const char* name, const char* usual) { return keys.text(name, usual); };
  const std::string mask = key("mask_token", "mask_token_id");
  const std::string length = key("block_length", "block_length");
  const std::string steps = key("block_steps", "block_steps");
  const DecoderConfig& b = form.base;
  MaskedDiffusionOptions& o = form.diffusion.emplace();
  o.vocabulary = b.vocab_size;
  o.positions = b.max_position;
  o.mask_token = config.integer(mask);
  if (o.mask_token < 0 || o.mask_token >= b.vocab_size)
    config.fail_at(mask, "it is outside the vocabulary");
  o.block_length = bounded(config, length, config.integer(length), b.max_position);
  o.block_steps = bounded(config, steps, config.integer(steps, o.block_length), kCountMax);
  if (!form.has_plain_layers() || form.mixture.experts > 0 || form.latent.kv_rank > 0 || b.tied ||
      !b.with.empty() || std::ranges::count(b.windows, 0) != b.layers)
    description.fail_at("diffusion",
                        "its layers have Llama's form, without biases, windows or norms of heads");
}

std::unique_ptr<Model> make_diffusion(DecoderForm form) {
  return std::make_unique<DiffusionDecoder>(std::move(form));
}

}  // namespace fk::parts
