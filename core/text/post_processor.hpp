// SPDX-License-Identifier: Apache-2.0
//
// Adds special tokens around the ids of a text.

#pragma once

#include <cstdint>
#include <vector>

#include "core/base/json.hpp"

namespace fk::text {

class PostProcessor {
 public:
  PostProcessor() = default;  ///< adds nothing
  /// Reads a post-processor of a tokenizer.json. Error for a type which is not known.
  explicit PostProcessor(const Config& config);

  std::vector<int32_t> apply(std::vector<int32_t> ids) const;

 private:
  void read(const Config& config);

  // Steps in order. A step is a list of special tokens; kText stands for all ids until then.
  static constexpr int32_t kText = -1;
  std::vector<std::vector<int32_t>> steps_;
};

}  // namespace fk::text
