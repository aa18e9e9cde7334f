// SPDX-License-Identifier: Apache-2.0
// Reading a decoder's configuration, in the spelling of transformers.
#include "baselines/models/parts/decoder.hpp"
#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

std::vector<int64_t> read_eos(const Config& config) {
  if (!config.has("eos_token_id")) return {};
  if (config.is_list("eos_token_id")) return config.integers("eos_token_id");
  return {config.integer("eos_token_id")};
}

DecoderConfig read_decoder(const Config& config, bool with_attention_bias, const RopeKeys& rope) {
  DecoderConfig d;
  d.hidden_size = read_size(config, "hidden_size");
  d.intermediate_size = read_size(config, "intermediate_size");
  d.layers = read_count(config, "num_hidden_layers");
  d.vocab_size = read_size(config, "vocab_size");
  d.heads = read_count(config, "num_attention_heads");
  d.kv_heads = config.integer("num_key_value_heads", d.heads);
  if (d.kv_heads < 1 || d.heads % d.kv_heads != 0) {
    config.fail_at("num_key_value_heads", "it does not divide num_attention_heads");
  }
  if (!config.has("head_dim") && d.hidden_size % d.heads != 0)
    config.fail_at("num_attention_heads",
                   "it does not divide hidden_size, and there is no head_dim");
  d.head_dim = config.has("head_dim") ? read_count(config, "head_dim") : d.hidden_size / d.heads;
  d.max_position = read_size(config, "max_position_embeddings");
  d.eps = config.number("rms_norm_eps");
  d.tied = config.boolean("tie_word_embeddings");
  d.windows.assign(static_cast<size_t>(d.layers), 0);
  d.eos = read_eos(config);
  d.rope = read_rope(config, d.head_dim, rope);
  need_text(config, "hidden_act", "silu");
  need_boolean(config, {"mlp_bias"}, false);
  if (with_attention_bias)
    d.attention_bias = config.boolean("attention_bias");
  else
    need_boolean(config, {"attention_bias"}, false);
  return d;
}

int64_t read_window(const Config& config) {
  return config.has("sliding_window") ? read_size(config, "sliding_window") : 0;
}

void slide_layers(const Config& config, int64_t window, DecoderConfig& d) {
  const auto types = config.texts("layer_types");
  if (types.size() != d.windows.size())
    config.fail_at("layer_types", "it lists " + std::to_string(types.size()) + " layers of " +
                                      std::to_string(d.layers));
  for (size_t i = 0; i < types.size(); ++i) {
    const bool slides = types[i] == "sliding_attention";
    if (!slides && types[i] != "full_attention")
      config.fail_at("layer_types", "`" + excerpt(types[i]) + "` is not a kind of layer",
                     did_you_mean(types[i], {"sliding_attention", "full_attention"}));
    if (slides && window == 0) config.fail_at("sliding_window", "a layer slides without a window");
    d.windows[i] = slides ? window : 0;
  }
}

int64_t read_top_k(const Config& config, int64_t experts) {
  const int64_t top_k = config.integer("num_experts_per_tok");
  if (top_k < 1 || top_k > experts)
    config.fail_at("num_experts_per_tok",
                   "it must be between 1 and the " + std::to_string(experts) + " experts");
  return top_k;
}

}  // namespace fk::parts
