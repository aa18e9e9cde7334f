// SPDX-License-Identifier: Apache-2.0
// Mistral: Llama's layers, every one of which sees only the last `sliding_window` tokens. Without a
// window in the configuration it is plain causal attention, as in the later releases.
#include "baselines/models/parts/decode_step.hpp"
#include "baselines/models/parts/decoder.hpp"

namespace fk {
namespace {

using namespace parts;

DecoderConfig read(const Config& config) {
  DecoderConfig d = read_decoder(config);
  slide_all_layers(config, d);
  return d;
}

class Mistral : public Model {
 public:
  explicit Mistral(const Config& config) : config_(read(config)) {}

  std::vector<std::string> phases() const override { return {"prefill", "decode"}; }

  void forward(Builder& b, const std::string& phase, const Limits& limits) const override {
    const DecoderStep step = begin_step(b, phase, config_, limits);
    for (int64_t i = 0; i < config_.layers; ++i) {
      tap_hidden(b, step, i);
      Args args = layer_args(b, step, config_, limits, i);
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

std::unique_ptr<Model> make(const Config& config) { return std::make_unique<Mistral>(config); }

FK_MODEL(mistral_swa, make, {"MistralForCausalLM"}, {"mistral"});

}  // namespace
}  // namespace fk
