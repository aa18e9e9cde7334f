// SPDX-License-Identifier: Apache-2.0
// Mamba 2: layers of one mixer each, no attention and no pages. A request's past is two states of a
// fixed size: the last inputs of the convolution and the recurrent state, each in the slot that the
// engine gives it. The gated norm is over the channels of each group, as in mamba_ssm and in
// transformers 5.24.
#include <cmath>

#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct Mamba2Config {
  int64_t channels = 0, layers = 0, vocab_size = 0;
  int64_t heads = 0, head_dim = 0, groups = 0, state_size = 0, taps = 0, chunk_size = 0;
  double eps = 0, dt_min = 0, dt_max = 0;  // dt_max 0: no limit
  bool bias = false, conv_bias = false, tied = false, residual_f32 = false;
  std::vector<int64_t> eos;
  int64_t inner() const { return heads * head_dim; }
  int64_t conv() const { return inner() + 2 * groups * state_size; }
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
  c.channels = read_size(config, "hidden_size");
  c.layers = read_count(config, "num_hidden_layers");
  c.vocab_size = read_size(config, "vocab_size");
  c.heads = read_count(config, "num_heads");
  c.head_dim = read_count(config, "head_dim");
  c.groups = read_count(config, "n_groups");
  c.state_size = read_count(config, "state_size");
  c.taps = read_count(config, "conv_kernel");
  c.chunk_size = read_count(config, "chunk_size");
  if (c.heads % c.groups != 0) config.fail_at("n_groups", "it does not divide num_heads");
  if (c.taps < 2) config.fail_at("conv_kernel", "a convolution has at least 2 taps");
  const double inner = config.number("expand") * static_cast<double>(c.channels);
  if (static_cast<double>(c.inner()) != std::floor(inner))
    config.fail_at("num_heads", "num_heads * head_dim is not expand * hidden_size");
  c.eps = config.number("layer_norm_epsilon");
  c.bias = config.boolean("use_bias");
  c.conv_bias = config.boolean("use_conv_bias");
  c.tied = config.boolean("tie_word_embeddings");
  c.residual_f32 = config.boolean("residual_in_fp32");
  c.eos = read_eos(config);
  read_time_steps(config, c);
  need_text(config, "hidden_act", "silu");
  need_boolean(config, {"rms_norm"}, true);
  need_boolean(config, {"norm_before_gate"}, false);
  return c;
}

WeightSpec vector(std::string name, DType dtype, int64_t count, double mean, double stddev) {
  WeightSpec spec;
  spec.name = std::move(name);
  spec.dtype = dtype;
  spec.shape = {count};
  spec.mean = mean;
  spec.stddev = stddev;
  return spec;
}

WeightSpec embedding_table(const Mamba2Config& c, DType dtype) {
  WeightSpec spec = matrix("backbone.embeddings.weight", dtype, {c.vocab_size, c.channels}, {});
  // As a head too, a table of unit elements would give logits of the size sqrt(C).
  spec.stddev = c.tied ? 1 / std::sqrt(static_cast<double>(c.channels)) : 1;
  return spec;
}

// Steps of about 0.01 and decay rates from 1 to 16, as models are initialised and stay.
void add_weights(Args& args, Builder& b, const Mamba2Config& c, DType dtype,
                 const std::string& path) {
  const std::string mixer = path + ".mixer.";
  const auto add = [&](const char* slot, const WeightSpec& spec) {
    args.emplace_back(slot, b.weight(spec));
  };
  const int64_t projected = c.inner() + c.conv() + c.heads;
  add("input_norm", norm_weight(path + ".norm.weight", dtype, c.channels));
  add("in_proj", matrix(mixer + "in_proj.weight", dtype, {projected, c.channels}, {}));
  add("conv", matrix(mixer + "conv1d.weight", dtype, {c.conv(), c.taps}, {}));
  WeightSpec a = vector(mixer + "A_log", DType::f32, c.heads, 1.4, 0.7);
  a.map = [](double log) { return -std::exp(log); };
  add("a", a);
  add("d", vector(mixer + "D", dtype, c.heads, 1, 0.2));
  add("dt_bias", vector(mixer + "dt_bias", dtype, c.heads, -4.6, 1));
  add("norm", norm_weight(mixer + "norm.weight", dtype, c.inner()));
  add("out_proj", matrix(mixer + "out_proj.weight", dtype, {c.channels, c.inner()}, {}));
  if (c.conv_bias) add("conv_bias", vector(mixer + "conv1d.bias", dtype, c.conv(), 0, 0.2));
  if (!c.bias) return;
  add("in_proj_bias", vector(mixer + "in_proj.bias", dtype, projected, 0, 0.2));
  add("out_proj_bias", vector(mixer + "out_proj.bias", dtype, c.channels, 0, 0.2));
}

// The inputs of a step that the layers read besides the hidden state.
struct Slots {
  Value cu_seqlens, state_slots, has_initial_state;  // the last in prefill only
};

void layer(Builder& b, const Mamba2Config& c, const DecoderStep& step, const Slots& slots,
           const Limits& limits, int64_t number) {
  const std::string path = "backbone.layers." + std::to_string(number);
  const Expr count = b.axis("N");
  Args args = {{"hidden_size", c.channels},
               {"num_heads", c.heads},
               {"head_dim", c.head_dim},
               {"num_groups", c.groups},
               {"state_size", c.state_size},
               {"kernel_size", c.taps},
               {"norm_group_size", c.inner() / c.groups},
               {"chunk_size", c.chunk_size},
               {"eps", c.eps},
               {"dt_min", c.dt_min},
               {"dt_max", c.dt_max},
               {"hidden", step.hidden},
               {"residual", step.residual},
               {"conv_state", b.state(path + ".mixer.conv_state", limits.cache_dtype,
                                      {count, c.taps - 1, c.conv()})},
               // Rounded at every token, it would lose what decays slowly.
               {"ssm_state", b.state(path + ".mixer.ssm_state", DType::f32,
                                     {count, c.heads, c.head_dim, c.state_size})},
               {"cu_seqlens", slots.cu_seqlens},
               {"state_slots", slots.state_slots},
               {"has_initial_state", slots.has_initial_state},
               {"max_query_len", step.max_query_len}};
  add_weights(args, b, c, limits.weights(), path);
  b.call("mamba2_block", path, args);
}

class Mamba2 : public Model {
 public:
  explicit Mamba2(const Config& config) : config_(read_mamba2(config)) {}

  std::vector<std::string> phases() const override { return {"prefill", "decode"}; }

  void forward(Builder& b, const std::string& phase, const Limits& limits) const override {
    const Mamba2Config& c = config_;
    DecoderStep step;
    step.decode = phase == "decode";
    step.requests = b.axis("B");
    step.tokens = step.decode ? step.requests : b.axis("T");
    step.rows_count = step.decode ? step.requests : b.axis("Q");
    step.max_query_len = step.decode ? Expr(1) : step.tokens;
    Slots slots;
    slots.cu_seqlens = b.input("cu_seqlens", DType::i32, {step.requests + 1});
    slots.state_slots = b.input("state_slots", DType::i32, {step.requests});
    if (!step.decode)
      slots.has_initial_state = b.input("has_initial_state", DType::i32, {step.requests});
    step.hidden = b.call("embedding", "backbone.embeddings",
                         {{"num_embeddings", c.vocab_size},
                          {"embedding_dim", c.channels},
                          {"table", b.weight(embedding_table(c, limits.weights()))},
                          {"ids", b.input("ids", DType::i64, {step.tokens})},
                          {"out", b.empty(limits.dtype, {step.tokens, c.channels})}});
    step.residual = b.zeros(c.residual_f32 ? DType::f32 : limits.dtype, {step.tokens, c.channels});
    for (int64_t i = 0; i < c.layers; ++i) {
      layer(b, c, step, slots, limits, i);
      tap_hidden(b, step, i);  // after the layer: so transformers counts for this model
    }
    finish(b, step, limits);
  }

  void drive(Session& session) const override { generate(session, {config_.eos}); }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    return axis == "N" ? limits.max_batch : decoder_axis_limit(phase, axis, limits);
  }
  int64_t vocab_size() const override { return config_.vocab_size; }
  std::vector<Unread> unread() const override {
    if (!config_.tied) return {};
    return {{"lm_head.weight", "a tied head", "backbone.embeddings.weight"}};
  }

 private:
  void finish(Builder& b, const DecoderStep& step, const Limits& limits) const {
    const int64_t channels = config_.channels;
    const WeightSpec norm = norm_weight("backbone.norm_f.weight", limits.weights(), channels);
    const Value x = b.call("rms_norm", "backbone.norm_f",
                           {{"hidden_size", channels},
                            {"eps", config_.eps},
                            {"weight", b.weight(norm)},
                            {"x", step.hidden},
                            {"residual", step.residual}});
    b.tap("hidden." + std::to_string(config_.layers), {x});
    sample_rows(b, step, x,
                config_.tied ? embedding_table(config_, limits.weights())
                             : matrix("lm_head.weight", limits.weights(),
                                      {config_.vocab_size, channels}, {}));
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
