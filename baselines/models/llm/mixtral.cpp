// SPDX-License-Identifier: Apache-2.0
// Mixtral: Llama's attention, and a mixture of experts in place of the MLP.
#include "baselines/models/parts/dense_decoder.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk {
namespace {

using namespace parts;

struct MixtralConfig {
  DecoderConfig decoder;
  int64_t experts = 0, top_k = 0;
};

MixtralConfig read_mixtral(const Config& config) {
  MixtralConfig c;
  c.decoder = read_decoder(config);
  c.decoder.windows.assign(c.decoder.windows.size(), read_window(config));
  c.experts = read_count(config, "num_local_experts");
  c.top_k = read_top_k(config, c.experts);
  return c;
}

class Mixtral final : public DenseDecoder {
 public:
  explicit Mixtral(const MixtralConfig& config)
      : DenseDecoder(config.decoder), experts_(config.experts), top_k_(config.top_k) {}

 private:
  int64_t experts() const override { return experts_; }
  void layer(Net& n, const DecoderStep& step, int64_t number) const override {
    record_layer(n, "moe_decoder_layer", step, config(), number,
                 {{"num_experts", experts_}, {"top_k", top_k_}, {"renormalize", true}});
  }

  int64_t experts_, top_k_;
};

std::unique_ptr<Model> make_mixtral(const Config& config) {
  return std::make_unique<Mixtral>(read_mixtral(config));
}

FK_MODEL(mixtral, make_mixtral, {"MixtralForCausalLM"}, {"mixtral"});

}  // namespace
}  // namespace fk
