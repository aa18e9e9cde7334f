// SPDX-License-Identifier: Apache-2.0
// Jamba: most layers have a mixer of Mamba, every eighth has attention without rotation, and every
// second a mixture of experts. So a request has pages of keys and values, and slots of states.
#include <cmath>
#include <nlohmann/json.hpp>

#include "baselines/models/parts/recurrent.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

// True for every `period`-th layer, from `offset` on.
struct JambaLayers {
  int64_t period = 1, offset = 0;
  bool has(int64_t layer) const { return layer % period == offset; }
};

struct JambaConfig {
  DecoderConfig decoder;
  JambaLayers attention, mixture;
  int64_t experts = 0, top_k = 0;
  int64_t inner = 0, state_size = 0, rank = 0, taps = 0;
  std::vector<std::string> mixer_with{"norms"};
};

JambaLayers read_jamba_layers(const Config& config, const std::string& kind) {
  const std::string period = kind + "_layer_period", offset = kind + "_layer_offset";
  const JambaLayers every{read_count(config, period), config.integer(offset)};
  if (every.offset < 0 || every.offset >= every.period)
    config.fail_at(offset, "it is not below " + period);
  return every;
}

JambaConfig read_jamba(const Config& config) {
  JambaConfig c;
  DecoderConfig& d = c.decoder = read_decoder(config.or_else(Json{{"rope_theta", 10000}}));
  if (read_window(config) > 0) config.fail_at("sliding_window", "no layer of this model slides");
  d.names.norm = "model.final_layernorm";
  d.rope = unrotated(2);
  c.attention = read_jamba_layers(config, "attn");
  c.mixture = read_jamba_layers(config, "expert");
  c.experts = read_count(config, "num_experts");
  c.top_k = read_top_k(config, c.experts);
  c.state_size = read_size(config, "mamba_d_state");
  c.taps = read_count(config, "mamba_d_conv");
  if (c.taps < 2) config.fail_at("mamba_d_conv", "a convolution has at least 2 taps");
  c.inner =
      bounded(config, "mamba_expand", read_count(config, "mamba_expand") * d.hidden_size, kSizeMax);
  c.rank = config.is_number("mamba_dt_rank") ? read_size(config, "mamba_dt_rank")
                                             : (d.hidden_size + 15) / 16;
  if (!config.is_number("mamba_dt_rank")) need_text(config, "mamba_dt_rank", "auto");
  if (config.boolean("mamba_conv_bias")) c.mixer_with.emplace_back("conv_bias");
  if (config.boolean("mamba_proj_bias")) c.mixer_with.emplace_back("bias");
  return c;
}

class Jamba : public Model {
 public:
  explicit Jamba(const Config& config) : config_(read_jamba(config)) {}

  std::unique_ptr<Engine> engine() const override {
    return generate_engine(decoder_options(config_.decoder));
  }

  void forward(Net& n, const std::string& phase) const override {
    const JambaConfig& c = config_;
    const DecoderConfig& d = c.decoder;
    n.rename({{"feed_forward.gate", "feed_forward.router"},
              {"w1", "gate_proj"},
              {"w3", "up_proj"},
              {"w2", "down_proj"}});
    DecoderStep step = begin_step(n, phase, d);
    begin_states(n, step);
    n.common({{"num_experts", c.experts}, {"top_k", c.top_k}, {"renormalize", false}});
    for (int64_t i = 0; i < d.layers; ++i) {
      tap_hidden(n, step, i);
      const std::string path = layer_path(d, i);
      const auto norm = [&](const char* name) {
        return Value(n("rms_norm", path + name, {{"x", step.hidden}, {"residual", step.residual}}));
      };
      const Value x = norm(".input_layernorm");
      step.hidden = c.attention.has(i) ? Value(n("self_attention", path + ".self_attn", {{"x", x}}))
                                       : mixer(n, path + ".mamba", x);
      const bool mixture = c.mixture.has(i) && c.experts > 1;
      step.hidden = n(mixture ? "moe_block" : "gated_mlp", path + ".feed_forward",
                      {{"x", norm(".pre_ff_layernorm")}});
    }
    end_step(n, step, d);
  }

  std::string refusal(const Parallel& parallel) const override {
    return decoder_refusal(config_.decoder, config_.experts, parallel);
  }
  std::vector<Unread> unread() const override { return unread_head(config_.decoder); }

 private:
  // Ranks do not divide a mixer, because its parts would exchange too much.
  Value mixer(Net& n, const std::string& path, Value x) const {
    const JambaConfig& c = config_;
    return n("mamba_mixer", path,
             {{"intermediate_size", c.inner},
              {"time_step_rank", c.rank},
              {"state_size", c.state_size},
              {"kernel_size", c.taps},
              {"x", x},
              // float32, because rounding at every token would lose the parts which decay slowly.
              {"ssm_state",
               n.state(path + ".ssm_state", DType::f32, {n.axis("N"), c.inner, c.state_size})}},
             c.mixer_with);
  }

  JambaConfig config_;
};

std::unique_ptr<Model> make_jamba(const Config& config) { return std::make_unique<Jamba>(config); }

FK_MODEL(jamba, make_jamba, {"JambaForCausalLM"}, {"jamba"},
         {"use_mamba_kernels", "use_mambapy", "use_associative_scan", "num_logits_to_keep"});

}  // namespace
}  // namespace fk
