// SPDX-License-Identifier: Apache-2.0
// DeepSeek-V3: latent attention with absorbed up-projections over a cache of latents, some dense
// layers, then mixtures of experts that are chosen by groups, with shared experts. Checkpoints may
// be f8e4m3 in blocks. The layers that predict further tokens are not part of it.
#include <cmath>
#include <nlohmann/json.hpp>

#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/fp8.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct DeepseekConfig {
  DecoderConfig decoder;
  Fp8 fp8;
  int64_t q_rank = 0, kv_rank = 0, nope = 0, rotary = 0, values = 0;  // widths of attention
  bool interleaved = true;
  double scale = 1;
  int64_t dense_layers = 0, moe_hidden = 0, shared_hidden = 0;
  int64_t experts = 0, top_k = 0, groups = 1, kept_groups = 1;
  bool renormalize = true;
  double routed_scale = 1;
  int64_t next_tokens = 0;  // layers that predict further tokens, behind the others
};

void read_attention(const Config& config, DeepseekConfig& c) {
  c.q_rank = config.has("q_lora_rank") ? read_size(config, "q_lora_rank") : 0;
  c.kv_rank = read_size(config, "kv_lora_rank");
  c.nope = read_count(config, "qk_nope_head_dim");
  c.rotary = read_count(config, "qk_rope_head_dim");
  c.values = read_count(config, "v_head_dim");
  c.interleaved = config.boolean("rope_interleave");
  const auto width = static_cast<double>(c.nope + c.rotary);
  c.scale = c.decoder.rope.score_scale / std::sqrt(width);
  // A file may also hold keys that follow from other keys.
  need_number(config, "head_dim", static_cast<double>(c.rotary));
  need_number(config, "qk_head_dim", width);
  need_number(config, "num_key_value_heads", static_cast<double>(c.decoder.heads));
}

void read_experts(const Config& config, DeepseekConfig& c) {
  c.dense_layers = config.integer("first_k_dense_replace");
  c.moe_hidden = read_size(config, "moe_intermediate_size");
  c.experts = read_count(config, "n_routed_experts");
  c.top_k = read_top_k(config, c.experts);
  c.groups = read_count(config, "n_group");
  c.kept_groups = read_count(config, "topk_group");
  const int64_t shared = config.integer("n_shared_experts");
  if (shared != 0) bounded(config, "n_shared_experts", shared, kCountMax);
  c.shared_hidden = shared * c.moe_hidden;
  c.renormalize = config.boolean("norm_topk_prob");
  c.routed_scale = config.number("routed_scaling_factor");
  if (c.experts % c.groups != 0) config.fail_at("n_group", "it does not divide n_routed_experts");
  if (c.kept_groups > c.groups) config.fail_at("topk_group", "it is more than n_group");
  if (c.top_k > c.kept_groups * (c.experts / c.groups))
    config.fail_at("num_experts_per_tok", "the chosen groups do not hold so many");
  c.next_tokens = config.integer("num_nextn_predict_layers", 0);
  if (c.next_tokens != 0) bounded(config, "num_nextn_predict_layers", c.next_tokens, kCountMax);
  need_text(config, "scoring_func", "sigmoid");
  need_text(config, "topk_method", "noaux_tc");
  need_number(config, "moe_layer_freq", 1);
}

DeepseekConfig read_deepseek_v3(const Config& config) {
  DeepseekConfig c;
  // The only rotated part of a head is this one, whatever hidden_size / heads may be.
  const std::string rotary = std::to_string(read_count(config, "qk_rope_head_dim"));
  c.decoder =
      read_decoder(config.with(parse_json("{\"head_dim\": " + rotary + "}", config.where())));
  c.fp8 = read_fp8(config);
  if (c.fp8.on) c.decoder.with = {"fp8"};
  read_attention(config, c);
  if (c.q_rank > 0) c.decoder.with.emplace_back("q_a_norm");
  read_experts(config, c);
  return c;
}

class DeepseekV3 : public Model {
 public:
  explicit DeepseekV3(const Config& config) : config_(read_deepseek_v3(config)) {}

  std::unique_ptr<Engine> engine() const override {
    return generate_engine(decoder_options(config_.decoder));
  }

  void forward(Net& n, const std::string& phase) const override {
    const DeepseekConfig& c = config_;
    const DecoderStep step = begin_step(n, phase, c.decoder);
    n.common({{"q_lora_rank", c.q_rank},
              {"kv_lora_rank", c.kv_rank},
              {"qk_nope_head_dim", c.nope},
              {"qk_rope_head_dim", c.rotary},
              {"v_head_dim", c.values},
              {"interleaved", c.interleaved},
              {"scale", c.scale},
              {"block_n", c.fp8.rows},
              {"block_k", c.fp8.columns},
              {"quantize_input", c.fp8.quantize_input}});
    if (c.q_rank == 0) project_at_once(n);
    for (int64_t i = 0; i < c.decoder.layers; ++i) {
      if (i < c.dense_layers)
        record_layer(n, "mla_decoder_layer", step, c.decoder, i);
      else
        record_layer(n, "mla_moe_decoder_layer", step, with_experts(), i, experts());
    }
    end_step(n, step, c.decoder);
  }

  std::vector<Unread> unread() const override {
    std::vector<Unread> all = unread_head(config_.decoder);
    for (int64_t i = 0; i < config_.next_tokens; ++i)
      all.push_back(
          {layer_path(config_.decoder, config_.decoder.layers + i) + ".", "next-token prediction"});
    return all;
  }

 private:
  // Queries come from the hidden state itself, and the latents are those of keys and values alone.
  static void project_at_once(Net& n) {
    n.rename({{"self_attn.q_b_proj", "self_attn.q_proj"},
              {"self_attn.fused_qkv_a_proj", "self_attn.kv_a_proj_with_mqa"}});
    n.adapt([](WeightSpec& spec) {
      if (spec.name.ends_with(".kv_a_proj_with_mqa.weight")) spec.parts.clear();
    });
  }

  DecoderConfig with_experts() const {
    DecoderConfig d = config_.decoder;
    if (config_.shared_hidden > 0) {
      d.with.push_back("shared");
      if (config_.fp8.on) d.with.push_back("shared_fp8");
    }
    return d;
  }

  Args experts() const {
    return {{"intermediate_size", config_.moe_hidden},
            {"num_experts", config_.experts},
            {"top_k", config_.top_k},
            {"num_expert_group", config_.groups},
            {"topk_group", config_.kept_groups},
            {"scoring_func", "sigmoid"},
            {"renormalize", config_.renormalize},
            {"routed_scaling_factor", config_.routed_scale},
            {"shared_intermediate_size", config_.shared_hidden}};
  }

  DeepseekConfig config_;
};

std::unique_ptr<Model> make_deepseek_v3(const Config& config) {
  return std::make_unique<DeepseekV3>(config);
}

FK_MODEL(deepseek_v3, make_deepseek_v3, {"DeepseekV3ForCausalLM"}, {"deepseek_v3"},
         {"aux_loss_alpha", "ep_size", "num_mtp_layers", "seq_aux"});

}  // namespace
}  // namespace fk
