// SPDX-License-Identifier: Apache-2.0
//
// Tokens beside the model's: they are found in the text before it is cut into words.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/json.hpp"
#include "core/text/byte_trie.hpp"
#include "core/text/model.hpp"
#include "core/text/normalizer.hpp"

namespace fk::text {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  ///< a match is no part of a word
  bool lstrip = false;       ///< a match takes spaces before it
  bool rstrip = false;       ///< a match takes spaces after it
  bool normalized = true;    ///< is looked for in normalized text, after all others
  bool special = false;
};

class AddedTokens {
 public:
  AddedTokens() = default;
  /// Reads `added_tokens`. Error if the vocabulary has another id for a token.
  AddedTokens(const std::vector<Config>& tokens, const Vocabulary& vocabulary,
              const Normalizer& normalizer);

  /// A part of a text; `id` is -1 where no added token is.
  struct Part {
    std::string_view text;
    int32_t id = -1;
  };

  /// The parts of a text, without empty ones; `normalized`: tokens of normalized text.
  void split(std::string_view text, bool normalized, std::vector<Part>& parts) const;

  /// Null if no added token has this id.
  const AddedToken* find(int32_t id) const;
  const AddedToken* find(std::string_view content) const;
  const std::vector<AddedToken>& all() const { return tokens_; }

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, std::size_t> by_id_;
  ByteTrie raw_, normalized_;  // places in tokens_
};

}  // namespace fk::text
