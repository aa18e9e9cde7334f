// SPDX-License-Identifier: Apache-2.0
// Parts that BERT and XLM-RoBERTa share as encoders: configuration, embeddings, and post-norm
// layers over a ragged batch.
#pragma once
#include <string>
#include <vector>

#include "core/exec/model.hpp"

namespace fk::parts {

struct BertConfig {
  int64_t hidden_size = 0, intermediate_size = 0, layers = 0, heads = 0, vocab_size = 0;
  int64_t max_position = 0, type_vocab_size = 0;
  double eps = 0;
  std::string approximate = "none";  // of gelu
  std::string prefix;                // of every checkpoint name
};

// Error for another activation, relative positions or a causal mask.
BertConfig read_bert(const Config& config);

// Records embeddings and layers with the taps hidden.0 (after the embeddings) to hidden.N and
// returns the last hidden state [T,C]. Axes T and B; inputs ids, positions, types, cu_seqlens.
Value record_bert(Net& n, const BertConfig& config);

int64_t encoder_axis_limit(const std::string& phase, const std::string& axis, const Limits& limits);

}  // namespace fk::parts
