// SPDX-License-Identifier: Apache-2.0
// Llama 2, 3 and 3.1: dense decoder layers; rope plain or with llama3 scaling.
#include "baselines/models/parts/dense_decoder.hpp"

namespace fk {
namespace {

using namespace parts;

std::unique_ptr<Model> make_llama(const Config& config) {
  return std::make_unique<DenseDecoder>(read_decoder(config));
}

FK_MODEL(llama, make_llama, {"LlamaForCausalLM"}, {"llama"});

}  // namespace
}  // namespace fk
