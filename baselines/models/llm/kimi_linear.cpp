// SPDX-License-Identifier: Apache-2.0
// Kimi Linear: most layers have a gated delta net with a decay for each channel, every fourth has
// latent attention without rotation. So a request has pages of latents and slots of states. Most
// layers have experts.
#include <cmath>
#include <nlohmann/json.hpp>

#include "baselines/models/parts/recurrent.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct KimiConfig {
  DecoderConfig decoder;
  std::vector<bool> linear, sparse;  // by layer
  int64_t linear_heads = 0, linear_dim = 0, taps = 0;
  int64_t kv_rank = 0, nope = 0, rotary = 0, values = 0;
  int64_t experts = 0, top_k = 0, expert_width = 0, shared = 0, groups = 1, kept_groups = 1;
  double routed_scale = 1;
  bool renormalize = true;
};

// Published files and transformers have different names for some keys.
int64_t kimi_integer(const Config& config, const char* name, const char* library) {
  return config.integer(name, config.integer(library));
}

// Reads a list of layers. Its numbers count from 1.
std::vector<bool> kimi_layers(const Config& linear, const std::string& key, int64_t layers) {
  std::vector<bool> there(static_cast<size_t>(layers));
  for (const int64_t layer : linear.integers(key)) {
    if (layer < 1 || layer > layers)
      linear.fail_at(key, "there is no layer " + std::to_string(layer));
    there[static_cast<size_t>(layer - 1)] = true;
  }
  return there;
}

// The sizes and the layers of the delta nets. They are in an object of their own, or beside the
// other keys.
void read_kimi_delta_nets(const Config& config, KimiConfig& c) {
  const int64_t layers = c.decoder.layers;
  const bool own = config.has("linear_attn_config");
  const Config from = own ? config.child("linear_attn_config") : config;
  c.linear_heads = read_count(from, own ? "num_heads" : "linear_num_heads");
  c.linear_dim = read_count(from, own ? "head_dim" : "linear_head_dim");
  c.taps = read_count(from, own ? "short_conv_kernel_size" : "linear_conv_kernel_dim");
  if (c.taps < 2) config.fail("a convolution has at least 2 taps");
  if (config.has("layer_types")) {
    c.linear = read_linear_layers(config, layers);
  } else if (own) {
    c.linear = kimi_layers(from, "kda_layers", layers);
    const auto full = kimi_layers(from, "full_attn_layers", layers);
    for (size_t i = 0; i < full.size(); ++i)
      if (full[i] == c.linear[i])
        from.fail_at("kda_layers",
                     "layer " + std::to_string(i + 1) + " has one kind of attention, and one only");
  } else {
    for (int64_t i = 0; i < layers; ++i) c.linear.push_back(i == 0 || i % 4 != 0);
  }
}

void read_kimi_mixture(const Config& config, KimiConfig& c) {
  const int64_t layers = c.decoder.layers;
  c.experts = bounded(config, "num_experts",
                      kimi_integer(config, "num_experts", "num_local_experts"), kCountMax);
  c.top_k =
      bounded(config, "num_experts_per_token",
              kimi_integer(config, "num_experts_per_token", "num_experts_per_tok"), c.experts);
  c.groups = kimi_integer(config, "num_expert_group", "n_group");
  c.kept_groups = config.integer("topk_group");
  if (c.groups < 1 || c.experts % c.groups || c.kept_groups < 1 || c.kept_groups > c.groups)
    config.fail_at("num_expert_group", "the groups do not divide the experts");
  c.expert_width = read_size(config, "moe_intermediate_size");
  c.shared = kimi_integer(config, "num_shared_experts", "n_shared_experts");
  c.routed_scale = config.number("routed_scaling_factor");
  c.renormalize = config.boolean("moe_renormalize", config.boolean("norm_topk_prob"));
  need_text(config, "moe_router_activation_func", "sigmoid");
  need_number(config, "moe_layer_freq", 1);
  const int64_t dense = config.integer("first_k_dense_replace", 1);
  const auto types = config.texts("mlp_layer_types", {});
  if (!types.empty() && static_cast<int64_t>(types.size()) != layers)
    config.fail_at("mlp_layer_types", "it does not list the layers");
  for (int64_t i = 0; i < layers; ++i)
    c.sparse.push_back(types.empty() ? i >= dense : types[static_cast<size_t>(i)] == "sparse");
}

KimiConfig read_kimi(const Config& config) {
  KimiConfig c;
  const Json library{{"rope_theta", 10000}};
  c.decoder = read_decoder(
      config.has("model_max_length")
          ? config.with({{"max_position_embeddings", config.integer("model_max_length")}})
                .or_else(library)
          : config.or_else(library));
  c.kv_rank = read_size(config, "kv_lora_rank");
  c.nope = read_count(config, "qk_nope_head_dim");
  c.rotary = read_count(config, "qk_rope_head_dim");
  c.values = read_count(config, "v_head_dim");
  if (config.has("q_lora_rank")) config.fail_at("q_lora_rank", "only null is supported");
  need_boolean(config, {"mla_use_nope"}, true);
  need_boolean(config, {"use_grouped_topk"}, true);
  c.decoder.rope = unrotated(c.rotary);
  read_kimi_delta_nets(config, c);
  read_kimi_mixture(config, c);
  return c;
}

class KimiLinear : public Model {
 public:
  explicit KimiLinear(const Config& config) : config_(read_kimi(config)) {}

  std::unique_ptr<Engine> engine() const override {
    return generate_engine(decoder_options(config_.decoder));
  }

  void forward(Net& n, const std::string& phase) const override {
    const KimiConfig& c = config_;
    const DecoderConfig& d = c.decoder;
    n.rename({{"self_attn.q_b_proj", "self_attn.q_proj"},
              {"self_attn.fused_qkv_a_proj", "self_attn.kv_a_proj_with_mqa"},
              {"experts.*.gate_proj", "experts.*.w1"},
              {"experts.*.up_proj", "experts.*.w3"},
              {"experts.*.down_proj", "experts.*.w2"}});
    n.adapt([](WeightSpec& spec) {
      if (spec.name.ends_with(".kv_a_proj_with_mqa.weight")) spec.parts.clear();
    });
    DecoderStep step = begin_step(n, phase, d);
    begin_states(n, step);
    for (int64_t i = 0; i < d.layers; ++i) {
      tap_hidden(n, step, i);
      const std::string path = layer_path(d, i);
      const auto norm = [&](const char* name) {
        return Value(n("rms_norm", path + name, {{"x", step.hidden}, {"residual", step.residual}}));
      };
      const Value x = norm(".input_layernorm");
      const std::string attention = path + ".self_attn", mlp = path + ".block_sparse_moe";
      step.hidden = c.linear[static_cast<size_t>(i)] ? delta_net(n, attention, x)
                                                     : latent_attention(n, attention, x);
      const Value y = norm(".post_attention_layernorm");
      step.hidden = c.sparse[static_cast<size_t>(i)] ? mixture(n, mlp, y)
                                                     : Value(n("gated_mlp", mlp, {{"x", y}}));
    }
    end_step(n, step, d);
  }

  std::string refusal(const Parallel& p) const override {
    if (config_.linear_heads % p.tp)
      return std::to_string(config_.linear_heads) + " heads of linear attention cannot be divided";
    return decoder_refusal(config_.decoder, config_.experts, p);
  }
  std::vector<Unread> unread() const override { return unread_head(config_.decoder); }

 private:
  Value delta_net(Net& n, const std::string& path, Value x) const {
    const KimiConfig& c = config_;
    return n("gated_delta_net", path,
             {{"num_heads", c.linear_heads},
              {"num_k_heads", c.linear_heads},
              {"head_dim", c.linear_dim},
              {"v_head_dim", c.linear_dim},
              {"gate_dim", c.linear_dim},
              {"low_rank_dim", c.linear_dim},
              {"kernel_size", c.taps},
              {"gate_activation", "sigmoid"},
              {"scale", 1 / std::sqrt(static_cast<double>(c.linear_dim))},
              {"x", x},
              // float32, because rounding at every token would lose the parts which decay slowly.
              {"recurrent_state", n.state(path + ".recurrent_state", DType::f32,
                                          {n.axis("N"), c.linear_heads / n.parallel().tp,
                                           c.linear_dim, c.linear_dim})}},
             {"low_rank"});
  }

  Value latent_attention(Net& n, const std::string& path, Value x) const {
    const KimiConfig& c = config_;
    return n("mla_self_attention", path,
             {{"q_lora_rank", 0},
              {"kv_lora_rank", c.kv_rank},
              {"qk_nope_head_dim", c.nope},
              {"qk_rope_head_dim", c.rotary},
              {"v_head_dim", c.values},
              {"scale", 1 / std::sqrt(static_cast<double>(c.nope + c.rotary))},
              {"eps", 1e-6},  // of the norm of latents: the library's own, whatever a file says
              {"x", x}});
  }

  Value mixture(Net& n, const std::string& path, Value x) const {
    const KimiConfig& c = config_;
    std::vector<std::string> with{"e_score_correction_bias"};
    if (c.shared > 0) with.emplace_back("shared");
    return n("deepseek_moe", path,
             {{"intermediate_size", c.expert_width},
              {"num_experts", c.experts},
              {"top_k", c.top_k},
              {"num_expert_group", c.groups},
              {"topk_group", c.kept_groups},
              {"scoring_func", "sigmoid"},
              {"renormalize", c.renormalize},
              {"routed_scaling_factor", c.routed_scale},
              {"shared_intermediate_size", c.shared * c.expert_width},
              {"x", x}},
             with);
  }

  KimiConfig config_;
};

std::unique_ptr<Model> make_kimi_linear(const Config& config) {
  return std::make_unique<KimiLinear>(config);
}

FK_MODEL(kimi_linear, make_kimi_linear, {"KimiLinearForCausalLM"}, {"kimi_linear"},
         {"qk_head_dim", "num_nextn_predict_layers", "linear_head_dim", "linear_num_heads",
          "linear_conv_kernel_dim"});

}  // namespace
}  // namespace fk
