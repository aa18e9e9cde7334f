// SPDX-License-Identifier: Apache-2.0
// Mixtral: Llama's attention, and a mixture of experts in place of the MLP. The experts' matrices
// are stacked: w13 holds gate and up of every expert, w2 the way back.
#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct MixtralConfig {
  DecoderConfig decoder;
  int64_t experts = 0, top_k = 0;
};

MixtralConfig read(const Config& config) {
  MixtralConfig c;
  c.decoder = read_decoder(config);
  slide_all_layers(config, c.decoder);
  c.experts = read_count(config, "num_local_experts");
  c.top_k = config.integer("num_experts_per_tok");
  if (c.top_k < 1 || c.top_k > c.experts) {
    config.fail_at("num_experts_per_tok", "it must be between 1 and num_local_experts");
  }
  return c;
}

void add_experts(Args& args, Builder& b, const MixtralConfig& config, DType dtype, int64_t layer) {
  const std::string moe = layer_path(layer) + ".block_sparse_moe.";
  const int64_t channels = config.decoder.hidden_size, hidden = config.decoder.intermediate_size;
  WeightSpec w13 =
      matrix(moe + "experts.w13.weight", dtype, {config.experts, 2 * hidden, channels}, {});
  WeightSpec w2 = matrix(moe + "experts.w2.weight", dtype, {config.experts, channels, hidden}, {});
  w13.stacked = w2.stacked = true;
  for (int64_t e = 0; e < config.experts; ++e) {
    const std::string expert = moe + "experts." + std::to_string(e);
    w13.parts.push_back({expert + ".w1.weight", expert + ".w3.weight"});
    w2.parts.push_back({expert + ".w2.weight"});
  }
  args.emplace_back("num_experts", config.experts);
  args.emplace_back("top_k", config.top_k);
  args.emplace_back("renormalize", true);
  args.emplace_back("gate",
                    b.weight(matrix(moe + "gate.weight", dtype, {config.experts, channels}, {})));
  args.emplace_back("w13", b.weight(std::move(w13)));
  args.emplace_back("w2", b.weight(std::move(w2)));
}

class Mixtral : public Model {
 public:
  explicit Mixtral(const Config& config) : config_(read(config)) {}

  std::vector<std::string> phases() const override { return {"prefill", "decode"}; }

  void forward(Builder& b, const std::string& phase, const Limits& limits) const override {
    const DecoderStep step = begin_step(b, phase, config_.decoder, limits);
    for (int64_t i = 0; i < config_.decoder.layers; ++i) {
      tap_hidden(b, step, i);
      Args args = layer_args(b, step, config_.decoder, limits, i);
      add_experts(args, b, config_, limits.weights(), i);
      b.call("moe_decoder_layer", layer_path(i), args);
    }
    end_step(b, step, config_.decoder, limits);
  }

  void drive(Session& session) const override { generate(session, {config_.decoder.eos}); }

  int64_t axis_limit(const std::string& phase, const std::string& axis,
                     const Limits& limits) const override {
    return decoder_axis_limit(phase, axis, limits);
  }
  int64_t vocab_size() const override { return config_.decoder.vocab_size; }
  int64_t max_positions() const override { return config_.decoder.max_position; }

 private:
  MixtralConfig config_;
};

std::unique_ptr<Model> make(const Config& config) { return std::make_unique<Mixtral>(config); }

FK_MODEL(mixtral, make, {"MixtralForCausalLM"}, {"mixtral"});

}  // namespace
}  // namespace fk
