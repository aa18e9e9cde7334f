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

DecoderConfig read_decoder(const Config& config, bool with_attention_bias) {
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
  d.eps = config.number("rms_norm_eps", d.eps);
  d.tied = config.boolean("tie_word_embeddings", false);
  d.windows.assign(static_cast<size_t>(d.layers), 0);
  d.eos = read_eos(config);
  d.rope = read_rope(config, d.head_dim);
  const std::string activation = config.text("hidden_act", "silu");
  if (activation != "silu") {
    config.fail_at("hidden_act", "`" + activation + "` is not supported: it must be `silu`");
  }
  d.attention_bias = config.boolean("attention_bias", false);
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (config.boolean(key, false) && !(with_attention_bias && d.attention_bias && key[0] == 'a'))
      config.fail_at(key, "projections have no bias: only false is supported");
  }
  return d;
}

void slide_all_layers(const Config& config, DecoderConfig& decoder) {
  const int64_t window = config.integer("sliding_window", 0);
  if (window != 0) bounded(config, "sliding_window", window, kSizeMax);
  decoder.windows.assign(static_cast<size_t>(decoder.layers), window);
}

}  // namespace fk::parts
