// SPDX-License-Identifier: Apache-2.0
// Outputs of text encoders: a vector of each token, or one of each text.
#pragma once
#include "core/engines/encode/engine.hpp"
#include "core/exec/model.hpp"

namespace fk::parts {

struct TextVectors {
  enum class Pooling { none, cls, mean };  // the first token's vector, or the mean
  Pooling pooling = Pooling::none;
  bool normalize = false;
};
// `pooling` and `normalize` of a configuration. fk-host defines both keys.
TextVectors read_text_vectors(const Config& config);
// `pad_token_id`. Positions count from pad_token_id + 1. Error if the table of positions ends
// before.
int64_t read_pad_token(const Config& config, int64_t positions);
// Makes the output last_hidden_state [T,C]. With a pooling, also embedding [B,C].
void output_vectors(Net& n, Value x, const TextVectors& vectors);
// Options of the encode engine for these vectors.
EncodeOptions encode_options(const TextVectors& vectors);

}  // namespace fk::parts
