// SPDX-License-Identifier: Apache-2.0
// A folder with the answers of another implementation: config.json, model.safetensors (or shards),
// golden.safetensors. Read as a stranger's: every shape is checked.
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
  std::string name;  // of the folder
  Config config;
  std::filesystem::path weights;                  // a checkpoint
  std::vector<std::vector<int64_t>> rows;         // tokens of every row, without right padding
  std::vector<std::vector<NamedTensor>> tensors;  // what else comes with every row
  int64_t padded = 0;                             // length of a row with padding; 0 without tokens
  // Wanted values, all rows one after the other with the padding of tokens removed: [.., C].
  std::map<std::string, Tensor> hidden;      // by tap: "hidden.3", "encoder_hidden.0"
  std::map<std::string, Tensor> outputs;     // "logits", "last_hidden_state", ...
  std::vector<std::vector<int64_t>> greedy;  // continuations of the first rows
  std::vector<std::string> not_compared;     // names of tensors that are there but not understood

  // Error names file and tensor.
  static GoldenCase load(const std::filesystem::path& folder);
  int64_t tokens() const;  // of all rows
  int64_t row_longest() const;
};

}  // namespace fk
