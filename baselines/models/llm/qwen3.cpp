// SPDX-License-Identifier: Apache-2.0
// Qwen3: dense layers with an RMS norm over every query and key head; a head width of its own;
// optionally some layers with a sliding window.
#include <algorithm>

#include "baselines/models/parts/dense_decoder.hpp"

namespace fk {
namespace {

using namespace parts;

// `layer_types` names the kind of every layer; older files say from which layer on the window
// holds.
void read_windows(const Config& config, DecoderConfig& d) {
  const int64_t given = read_window(config), first = config.integer("max_window_layers");
  const int64_t window = config.boolean("use_sliding_window") ? given : 0;
  if (config.has("layer_types")) return slide_layers(config, window, d);
  for (int64_t i = std::max<int64_t>(first, 0); i < d.layers; ++i)
    d.windows[static_cast<size_t>(i)] = window;
}

DecoderConfig read_qwen3(const Config& config) {
  DecoderConfig d = read_decoder(config);
  d.with = {"qk_norm"};
  read_windows(config, d);
  return d;
}

std::unique_ptr<Model> make_qwen3(const Config& config) {
  return std::make_unique<DenseDecoder>(read_qwen3(config));
}

FK_MODEL(qwen3, make_qwen3, {"Qwen3ForCausalLM"}, {"qwen3"});

}  // namespace
}  // namespace fk
