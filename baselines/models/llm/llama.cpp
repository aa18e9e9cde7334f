// SPDX-License-Identifier: Apache-2.0
// Llama 2, 3 and 3.1: dense decoder layers; rope plain or with llama3 scaling.
#include "baselines/models/parts/decode_step.hpp"
#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/parallel.hpp"

namespace fk {
namespace {

using namespace parts;

DecoderConfig read(const Config& config) { return read_decoder(config); }

class Llama : public Model {
 public:
  explicit Llama(const Config& config) : config_(read(config)) {}

  std::vector<std::string> phases() const override { return {"prefill", "decode"}; }

  void forward(Builder& b, const std::string& phase, const Limits& limits) const override {
    if (limits.parallel.ranks() > 1) return forward_part(b, phase, limits);
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
  std::string refusal(const Parallel& parallel) const override {
    return decoder_refusal(config_, 0, parallel);
  }

 private:
  // What one of several ranks computes.
  void forward_part(Builder& b, const std::string& phase, const Limits& limits) const {
    ParallelStep p = begin_parallel(b, phase, config_, limits);
    for (int64_t i = 0; i < config_.layers; ++i) {
      Args args = layer_args(b, p.step, config_, limits, i);
      add_gated_mlp(args, b, config_, limits, i);
      const Value x = parallel_attention(b, p, config_, limits, i, args);
      Args mlp = args_of(b, "gated_mlp", args);
      mlp.emplace_back("x", x);
      p.step.hidden = b.call("gated_mlp", layer_path(i) + ".mlp", mlp);
    }
    end_parallel(b, p, config_, limits);
  }

  DecoderConfig config_;
};

std::unique_ptr<Model> make(const Config& config) { return std::make_unique<Llama>(config); }

FK_MODEL(llama, make, {"LlamaForCausalLM"}, {"llama"});

}  // namespace
}  // namespace fk
