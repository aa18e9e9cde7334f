// SPDX-License-Identifier: Apache-2.0
// Mamba 2: layers of one mixer each, no attention and no pages. A request's past is two states of a
// fixed size: the last inputs of the convolution and the recurrent state. The engine gives the
// request a slot in each. The gated norm is over the channels of each group, as in mamba_ssm and in
// transformers 5.24.
#include <cmath>

#include "baselines/models/parts/recurrent.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct Mamba2Config {
  DecoderConfig decoder;  // heads: of the recurrence; without sizes of attention
  int64_t groups = 0, state_size = 0, taps = 0, chunk_size = 0;
  double dt_min = 0, dt_max = 0;  // dt_max 0: no limit
  bool residual_f32 = false;
};

void read_time_steps(const Config& config, Mamba2Config& c) {
  const std::vector<double> limit = config.numbers("time_step_limit");
  if (limit.size() != 2 || !(limit[0] >= 0) || !(limit[1] > limit[0]))
    config.fail_at("time_step_limit", "it is not a lower and an upper limit");
  c.dt_min = limit[0];
  c.dt_max = std::isinf(limit[1]) ? 0 : limit[1];
}

Mamba2Config read_mamba2(const Config& config) {
  Mamba2Config c;
  DecoderConfig& d = c.decoder;
  d.names.embedding = "backbone.embeddings";
  d.names.layers = "backbone.layers";
  d.names.norm = "backbone.norm_f";
  d.hidden_size = read_size(config, "hidden_size");
  d.layers = read_count(config, "num_hidden_layers");
  d.vocab_size = read_size(config, "vocab_size");
  d.heads = read_count(config, "num_heads");
  d.head_dim = read_count(config, "head_dim");
  c.groups = read_count(config, "n_groups");
  c.state_size = read_count(config, "state_size");
  c.taps = read_count(config, "conv_kernel");
  c.chunk_size = read_count(config, "chunk_size");
  if (d.heads % c.groups != 0) config.fail_at("n_groups", "it does not divide num_heads");
  if (c.taps < 2) config.fail_at("conv_kernel", "a convolution has at least 2 taps");
  const double inner = config.number("expand") * static_cast<double>(d.hidden_size);
  if (static_cast<double>(d.heads * d.head_dim) != std::floor(inner))
    config.fail_at("num_heads", "num_heads * head_dim is not expand * hidden_size");
  d.eps = config.number("layer_norm_epsilon");
  if (config.boolean("use_bias")) d.with.emplace_back("bias");
  if (config.boolean("use_conv_bias")) d.with.emplace_back("conv_bias");
  d.tied = config.boolean("tie_word_embeddings");
  d.eos = read_eos(config);
  c.residual_f32 = config.boolean("residual_in_fp32");
  read_time_steps(config, c);
  need_text(config, "hidden_act", "silu");
  need_boolean(config, {"rms_norm"}, true);
  need_boolean(config, {"norm_before_gate"}, false);
  return c;
}

class Mamba2 : public Model {
 public:
  explicit Mamba2(const Config& config) : config_(read_mamba2(config)) {}

  std::unique_ptr<Engine> engine() const override {
    return generate_engine(decoder_options(config_.decoder));
  }

  void forward(Net& n, const std::string& phase) const override {
    const Mamba2Config& c = config_;
    DecoderStep step = begin_recurrent_batch(n, phase);
    n.common({{"eps", c.decoder.eps}});
    look_up(n, step, c.decoder);
    step.residual = n.zeros(c.residual_f32 ? DType::f32 : n.limits().dtype,
                            {step.tokens, c.decoder.hidden_size});
    for (int64_t i = 0; i < c.decoder.layers; ++i) {
      layer(n, step, i);
      tap_hidden(n, step, i);  // after the layer, as transformers counts for this model
    }
    end_step(n, step, c.decoder);
  }

  std::vector<Unread> unread() const override { return unread_head(config_.decoder); }

 private:
  void layer(Net& n, const DecoderStep& step, int64_t number) const {
    const Mamba2Config& c = config_;
    const DecoderConfig& d = c.decoder;
    const std::string path = layer_path(d, number);
    n("mamba2_block", path,
      {{"num_heads", d.heads},
       {"head_dim", d.head_dim},
       {"num_groups", c.groups},
       {"state_size", c.state_size},
       {"kernel_size", c.taps},
       {"norm_group_size", d.heads * d.head_dim / c.groups},
       {"chunk_size", c.chunk_size},
       {"dt_min", c.dt_min},
       {"dt_max", c.dt_max},
       {"hidden", step.hidden},
       {"residual", step.residual},
       // float32, because rounding at every token would lose the parts which decay slowly.
       {"ssm_state", n.state(path + ".mixer.ssm_state", DType::f32,
                             {n.axis("N"), d.heads, d.head_dim, c.state_size})}},
      d.with);
  }

  Mamba2Config config_;
};

std::unique_ptr<Model> make_mamba2(const Config& config) {
  return std::make_unique<Mamba2>(config);
}

FK_MODEL(mamba2, make_mamba2, {"Mamba2ForCausalLM"}, {"mamba2"},
         {"rescale_prenorm_residual", "time_step_floor", "time_step_max", "time_step_min",
          "time_step_rank"});

}  // namespace
}  // namespace fk
