// SPDX-License-Identifier: Apache-2.0
// The model for every description of a decoder (`decoder` in registry/models). Layers of Llama's
// form are recorded as whole layers (dense_decoder.hpp), all other layers as their parts.
#include "baselines/models/parts/decoder_form.hpp"
#include "baselines/models/parts/dense_decoder.hpp"
#include "baselines/models/parts/diffusion.hpp"

namespace fk::parts {

namespace {

std::string table_refusal(const DecoderForm& form, const Parallel& parallel) {
  if (parallel.tp > 1 && form.qk_norm == DecoderForm::QkNorm::full)
    return "a norm over all heads cannot be divided between ranks";
  if (parallel.tp > 1 && (!form.inside_attention.empty() || !form.inside_mlp.empty()))
    return "a norm inside of a block cannot be divided between ranks";
  if (parallel.ranks() > 1 && (form.fp8.on || form.products.on()))
    return "matrices in fp8 cannot be divided between ranks";
  if (parallel.ranks() > 1 && (form.mixture.bias || form.mxfp4))
    return "experts with biases or in mxfp4 cannot be divided between ranks";
  if (parallel.ep > 1 && form.mixture.jitter > 0)
    return "experts behind a router with a jitter cannot be divided between ranks";
  return decoder_refusal(form.base, form.mixture.experts, parallel);
}

std::vector<Model::Unread> table_unread(const DecoderForm& form) {
  std::vector<Model::Unread> list = unread_head(form.base);
  for (int64_t i = 0; i < form.base.layers; ++i)
    for (const auto& name : form.buffers)
      list.push_back({layer_path(form.base, i) + "." + name, "a mask", ""});
  if (form.sounds)
    list.push_back({form.sounds->path + ".audio_bos_eos_token.", "ends of sounds", ""});
  std::vector<std::string> products = form.qkv;
  products.insert(products.end(), form.up.begin(), form.up.end());
  products.insert(products.end(), {form.o, form.down});
  for (int64_t i = 0; !form.products.bound.empty() && i < form.base.layers; ++i)
    for (const auto& name : products)
      list.push_back({layer_path(form.base, i) + "." + name + form.products.bound,
                      "a bound of the scales of inputs", ""});
  for (int64_t i = 0; i < form.further_layers; ++i)
    list.push_back(
        {layer_path(form.base, form.base.layers + i) + ".", "next-token prediction", ""});
  return list;
}

class TableDecoder final : public Model {
 public:
  explicit TableDecoder(DecoderForm form) : form_(std::move(form)) {}

  std::unique_ptr<Engine> engine() const override {
    GenerateOptions options = decoder_options(form_.base);
    if (form_.vision) add_images(*form_.vision, options);
    if (form_.sounds) add_sounds(*form_.sounds, options);
    return generate_engine(std::move(options));
  }
  void forward(Net& n, const std::string& phase) const override {
    if (form_.vision && phase == VisionTower::phase)
      return record_tower(n, *form_.vision, form_.source_rows());
    if (form_.sounds && phase == SoundTower::phase)
      return record_sounds(n, *form_.sounds, form_.source_rows());
    record_decoder(n, phase, form_);
  }
  std::string refusal(const Parallel& parallel) const override {
    return table_refusal(form_, parallel);
  }
  std::vector<Unread> unread() const override { return table_unread(form_); }
  std::string quantization() const override { return form_.mxfp4 ? "mxfp4" : ""; }

 private:
  const DecoderForm form_;
};

// An encoder with the parts of decoders.
class TableBidirectional final : public Model {
 public:
  explicit TableBidirectional(DecoderForm form) : form_(std::move(form)) {}

  std::unique_ptr<Engine> engine() const override {
    EncodeOptions options = encode_options(form_.vectors);
    options.vocabulary = form_.base.vocab_size;
    options.positions = form_.base.max_position - form_.pad_token - 1;
    options.position_offset = form_.pad_token + 1;
    options.pad_token = form_.pad_token;
    return encode_engine(std::move(options));
  }
  void forward(Net& n, const std::string& phase) const override { record_decoder(n, phase, form_); }
  std::vector<Unread> unread() const override {
    std::vector<Unread> list;
    for (const auto& name : form_.heads)
      list.push_back({name, name == "pooler." ? "a pooler" : "a head"});
    return list;
  }

 private:
  const DecoderForm form_;
};

// Whole layers with latents, with experts, or with both.
class TableLayers final : public DenseDecoder {
 public:
  explicit TableLayers(DecoderForm form) : DenseDecoder(base_of(form)), form_(std::move(form)) {}

  void forward(Net& n, const std::string& phase) const override {
    if (has_latents()) n.rename(names_of(form_));
    if (form_.mixture.experts > 0)
      n.rename(names_of_mixture(form_, has_latents() ? "mlp" : "block_sparse_moe"));
    n.adapt([this](WeightSpec& spec) { adapt_weight(form_, spec); });
    DenseDecoder::forward(n, phase);
  }
  std::string refusal(const Parallel& parallel) const override {
    return table_refusal(form_, parallel);
  }
  std::vector<Unread> unread() const override { return table_unread(form_); }

 private:
  // Optional weights that every layer has.
  static DecoderConfig base_of(const DecoderForm& form) {
    DecoderConfig base = form.base;
    if (form.fp8.on) base.with.emplace_back("fp8");
    if (form.latent.q_rank > 0) base.with.emplace_back("q_a_norm");
    if (form.sinks) base.with.emplace_back("sinks");
    if (form.o_bias) base.with.emplace_back("o_bias");
    if (form.mixture.bias) base.with.insert(base.with.end(), {"gate_bias", "expert_biases"});
    return base;
  }
  bool has_latents() const { return form_.latent.kv_rank > 0; }
  int64_t experts() const override { return form_.mixture.experts; }
  bool is_decode_step() const override { return false; }

  void layer(Net& n, const DecoderStep& step, int64_t number) const override {
    if (has_latents()) return latent_layer(n, step, number);
    const DecoderForm::Mixture& m = form_.mixture;
    record_layer(n, "moe_decoder_layer", step, config(), number,
                 {{"intermediate_size", m.width},
                  {"num_experts", m.experts},
                  {"top_k", m.top_k},
                  {"renormalize", m.renormalize},
                  {"activation", m.activation}});
  }

  void latent_layer(Net& n, const DecoderStep& step, int64_t number) const {
    const DecoderForm::Latent& l = form_.latent;
    const DecoderForm::Mixture& m = form_.mixture;
    n.common({{"q_lora_rank", l.q_rank},
              {"kv_lora_rank", l.kv_rank},
              {"qk_nope_head_dim", l.nope},
              {"qk_rope_head_dim", l.rotary},
              {"v_head_dim", l.values},
              {"interleaved", form_.interleaved},
              {"scale", form_.attention_scale},
              {"block_n", form_.fp8.rows},
              {"block_k", form_.fp8.columns},
              {"quantize_input", form_.fp8.quantize_input}});
    if (!form_.is_mixture(number))
      return record_layer(n, "mla_decoder_layer", step, config(), number);
    DecoderConfig config = this->config();
    if (m.shared_width > 0) config.with.emplace_back("shared");
    if (m.shared_width > 0 && form_.fp8.on) config.with.emplace_back("shared_fp8");
    Args args{{"intermediate_size", m.width},
              {"num_experts", m.experts},
              {"top_k", m.top_k},
              {"num_expert_group", m.groups},
              {"topk_group", m.kept_groups},
              {"scoring_func", m.sigmoid ? "sigmoid" : "softmax"},
              {"renormalize", m.renormalize},
              {"routed_scaling_factor", m.scale},
              {"shared_intermediate_size", m.shared_width}};
    if (m.correction.empty()) args.emplace_back("e_score_correction_bias", Value{});
    record_layer(n, "mla_moe_decoder_layer", step, config, number, std::move(args));
  }

  const DecoderForm form_;
};

std::unique_ptr<Model> make_table_decoder(const Config& description, const Config& config) {
  DecoderForm form = read_decoder_form(description, config);
  if (form.vision && form.sounds && form.vision->placeholder == form.sounds->placeholder)
    description.fail_at("sounds", "images and sounds have the same token in a prompt");
  if (form.diffusion) return make_diffusion(std::move(form));
  if (form.bidirectional) return std::make_unique<TableBidirectional>(std::move(form));
  if (form.is_plain() && (form.mixture.experts > 0 || form.latent.kv_rank > 0))
    return std::make_unique<TableLayers>(std::move(form));
  if (form.is_plain()) return std::make_unique<DenseDecoder>(std::move(form.base));
  return std::make_unique<TableDecoder>(std::move(form));
}

FK_MODEL_FORM(decoder, make_table_decoder);

}  // namespace

}  // namespace fk::parts
