// SPDX-License-Identifier: Apache-2.0
// A decoder-only language model as an encoder of texts, in transformers' names of Qwen2.5-VL's text
// model. It keeps no cache. Its last layers have no use: a pipeline takes the states before them.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

struct DecoderText {
  int64_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, mlp = 0, vocabulary = 0;
  double eps = 0, theta = 0;
  int64_t head_dim() const { return hidden / heads; }
};
DecoderText read_decoder_text(const Config& config);

// Growth of a score where a token must not see a key.
inline constexpr double kUnseenKey = -1e4;
// The growth of scores by each key, [B, S] in float32. `seen` [B, S] is 1 for tokens which others
// see, and 0 for others.
Value hidden_keys(Net& n, const std::string& path, Value seen);

// [B * S, hidden]: states behind `layers` layers, of tokens [B, S] in int64. S is a number. Tokens
// see themselves and earlier ones, with `hidden` [B, S] of hidden_keys(). Taps are `path`.i behind
// layer i.
Value decoder_states(Net& n, const std::string& path, const DecoderText& c, int64_t layers,
                     Value tokens, Value hidden);

}  // namespace fk::parts
