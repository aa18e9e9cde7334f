// SPDX-License-Identifier: Apache-2.0
// Qwen3: dense layers with an RMS norm over every query and key head; a head width of its own;
// optionally some layers with a sliding window.
#include "baselines/models/parts/decode_step.hpp"
#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

// `layer_types` names the kind of every layer; older files say from which layer on the window
// holds.
void read_windows(const Config& config, DecoderConfig& d) {
  if (!config.boolean("use_sliding_window", false)) return;
  const int64_t window = read_size(config, "sliding_window");
  const auto types = config.texts("layer_types", {});
  if (!types.empty() && types.size() != d.windows.size()) {
    config.fail_at("layer_types", "it lists " + std::to_string(types.size()) + " layers of " +
                                      std::to_string(d.layers));
  }
  const int64_t first = config.integer("max_window_layers", d.layers);
  for (size_t i = 0; i < d.windows.size(); ++i) {
    const bool slides =
        types.empty() ? static_cast<int64_t>(i) >= first : types[i] == "sliding_attention";
    if (slides) d.windows[i] = window;
  }
}

DecoderConfig read(const Config& config) {
  DecoderConfig d = read_decoder(config);
  read_windows(config, d);
  return d;
}

class Qwen3 : public Model {
 public:
  explicit Qwen3(const Config& config) : config_(read(config)) {}

  std::vector<std::string> phases() const override { return {"prefill", "decode"}; }

  void forward(Builder& b, const std::string& phase, const Limits& limits) const override {
    const DecoderStep step = begin_step(b, phase, config_, limits);
    for (int64_t i = 0; i < config_.layers; ++i) {
      tap_hidden(b, step, i);
      Args args = layer_args(b, step, config_, limits, i);
      for (const char* name : {"q_norm", "k_norm"}) {
        const std::string weight = layer_path(i) + ".self_attn." + name + ".weight";
        args.emplace_back(name, b.weight(norm_weight(weight, limits.weights(), config_.head_dim)));
      }
      add_gated_mlp(args, b, config_, limits, i);
      b.call("decoder_layer", layer_path(i), args);
    }
    end_step(b, step, config_, limits);
    if (step.decode) fold_decode_step(b);
  }

  void drive(Session& session) const override { generate(session, {config_.eos}); }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    return decoder_axis_limit(phase, axis, limits);
  }
  int64_t vocab_size() const override { return config_.vocab_size; }
  int64_t max_positions() const override { return config_.max_position; }

 private:
  DecoderConfig config_;
};

std::unique_ptr<Model> make(const Config& config) { return std::make_unique<Qwen3>(config); }

FK_MODEL(qwen3, make, {"Qwen3ForCausalLM"}, {"qwen3"});

}  // namespace
}  // namespace fk
