// SPDX-License-Identifier: Apache-2.0
// Mamba: layers of one mixer each, no attention and no pages. A request's past is two states of a
// fixed size: the last inputs of the convolution and the recurrent state of each channel.
#include <cmath>

#include "baselines/models/parts/recurrent.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct MambaConfig {
  DecoderConfig decoder;  // without sizes of attention
  int64_t inner = 0, state_size = 0, rank = 0, taps = 0;
  bool residual_f32 = false;
};

MambaConfig read_mamba(const Config& config) {
  MambaConfig c;
  DecoderConfig& d = c.decoder;
  d.names.embedding = "backbone.embeddings";
  d.names.layers = "backbone.layers";
  d.names.norm = "backbone.norm_f";
  d.hidden_size = read_size(config, "hidden_size");
  d.layers = read_count(config, "num_hidden_layers");
  d.vocab_size = read_size(config, "vocab_size");
  d.eps = config.number("layer_norm_epsilon");
  d.tied = config.boolean("tie_word_embeddings");
  d.eos = read_eos(config);
  if (config.boolean("use_bias")) d.with.emplace_back("bias");
  if (config.boolean("use_conv_bias")) d.with.emplace_back("conv_bias");
  c.state_size = read_size(config, "state_size");
  c.taps = read_count(config, "conv_kernel");
  if (c.taps < 2) config.fail_at("conv_kernel", "a convolution has at least 2 taps");
  const double inner = config.number("expand") * static_cast<double>(d.hidden_size);
  c.inner = bounded(config, "expand", static_cast<int64_t>(inner), kSizeMax);
  if (config.integer("intermediate_size", c.inner) != c.inner)
    config.fail_at("intermediate_size", "it is not expand * hidden_size");
  c.rank = config.is_number("time_step_rank") ? read_size(config, "time_step_rank")
                                              : (d.hidden_size + 15) / 16;
  if (!config.is_number("time_step_rank")) need_text(config, "time_step_rank", "auto");
  c.residual_f32 = config.boolean("residual_in_fp32");
  need_text(config, "hidden_act", "silu");
  return c;
}

class Mamba : public Model {
 public:
  explicit Mamba(const Config& config) : config_(read_mamba(config)) {}

  std::unique_ptr<Engine> engine() const override {
    return generate_engine(decoder_options(config_.decoder));
  }

  void forward(Net& n, const std::string& phase) const override {
    const MambaConfig& c = config_;
    const DecoderConfig& d = c.decoder;
    DecoderStep step = begin_recurrent_batch(n, phase);
    n.common({{"eps", d.eps}});
    look_up(n, step, d);
    step.residual =
        n.zeros(c.residual_f32 ? DType::f32 : n.limits().dtype, {step.tokens, d.hidden_size});
    for (int64_t i = 0; i < d.layers; ++i) {
      const std::string path = layer_path(d, i);
      n("mamba_block", path,
        {{"intermediate_size", c.inner},
         {"time_step_rank", c.rank},
         {"state_size", c.state_size},
         {"kernel_size", c.taps},
         {"hidden", step.hidden},
         {"residual", step.residual},
         // float32, because rounding at every token would lose the parts which decay slowly.
         {"ssm_state",
          n.state(path + ".mixer.ssm_state", DType::f32, {n.axis("N"), c.inner, c.state_size})}},
        d.with);
      tap_hidden(n, step, i);  // after the layer, as transformers counts for this model
    }
    end_step(n, step, d);
  }

  std::vector<Unread> unread() const override { return unread_head(config_.decoder); }

 private:
  MambaConfig config_;
};

std::unique_ptr<Model> make_mamba(const Config& config) { return std::make_unique<Mamba>(config); }

FK_MODEL(mamba, make_mamba, {"MambaForCausalLM"}, {"mamba"},
         {"rescale_prenorm_residual", "time_step_floor", "time_step_max", "time_step_min",
          "time_step_scale", "time_step_init_scheme", "n_layer", "use_mambapy",
          "use_associative_scan"});

}  // namespace
}  // namespace fk
