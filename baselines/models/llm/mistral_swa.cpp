// SPDX-License-Identifier: Apache-2.0
// Mistral: Llama's layers, every one of which sees only the last `sliding_window` tokens. With null
// for a window it is plain causal attention, as in the later releases.
#include "baselines/models/parts/dense_decoder.hpp"

namespace fk {
namespace {

using namespace parts;

std::unique_ptr<Model> make_mistral_swa(const Config& config) {
  DecoderConfig d = read_decoder(config);
  d.windows.assign(d.windows.size(), read_window(config));
  return std::make_unique<DenseDecoder>(std::move(d));
}

FK_MODEL(mistral_swa, make_mistral_swa, {"MistralForCausalLM"}, {"mistral"});

}  // namespace
}  // namespace fk
