// SPDX-License-Identifier: Apache-2.0
// A folder with another implementation's answers: config.json, model.safetensors (or shards),
// golden.safetensors, and case.json where it has more. The content is untrusted: every shape is checked.
#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/exec/model.hpp"
#include "core/tensor/safetensors.hpp"

namespace fk {

struct GoldenCase {
  std::string name;  // the folder's
  Config config;
  std::filesystem::path weights;                  // a checkpoint
  std::vector<std::vector<int64_t>> rows;         // tokens of each row, without right padding
  std::vector<std::vector<NamedTensor>> tensors;  // other inputs of each row
  int64_t padded = 0;                             // length of a row with padding; 0: no tokens
  // Wanted values: all rows in a sequence, without the padding of tokens: [.., C].
  std::map<std::string, Tensor> hidden;      // by tap: "hidden.3", "encoder_hidden.0"
  std::map<std::string, Tensor> outputs;     // "logits", "last_hidden_state", ...
  std::vector<std::vector<int64_t>> greedy;  // continuations of the first rows
  std::vector<std::string> not_compared;     // names of tensors without a known meaning
  double bf16_of_spread = 0;  // the other implementation's own error in bfloat16; 0: not known
  // Rows of each request's ragged tensors, and of the padded ones; empty: they are not ragged.
  std::vector<int64_t> ragged = {};
  int64_t ragged_most = 0;

  // Error with file and tensor.
  static GoldenCase load(const std::filesystem::path& folder);
  int64_t tokens() const;  // in all rows
  int64_t row_longest() const;
};

}  // namespace fk
