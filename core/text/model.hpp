// SPDX-License-Identifier: Apache-2.0
//
// The model of a tokenizer: from one word to ids. A file for each kind.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/json.hpp"

namespace fk::text {

/// Tokens with ids.
class Vocabulary {
 public:
  Vocabulary() = default;
  /// From the object `vocab` of a model. Error for an id below 0, far above the count, or there
  /// twice.
  explicit Vocabulary(const Config& vocab);

  /// Error at `where` if the id is taken, or too large for a vocabulary.
  void add(std::string token, int64_t id, const std::string& where);

  std::optional<int32_t> id(std::string_view token) const;
  /// Null if no token has this id.
  const std::string* token(int32_t id) const;
  /// By id; an absent one is empty.
  const std::vector<std::string>& tokens() const { return tokens_; }
  std::size_t size() const { return ids_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
};

class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of a word, which is valid UTF-8 and not empty.
  virtual void encode(std::string_view word, std::vector<int32_t>& ids) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

 private:
  Vocabulary vocabulary_;
};

/// Reads `model` of a tokenizer.json. `bytes`: words are made of bytes, and tokens are written in
/// the alphabet of byte_alphabet.hpp.
std::unique_ptr<const Model> read_model(const Config& config, bool bytes);

std::unique_ptr<const Model> read_bpe(const Config& config, bool bytes);
std::unique_ptr<const Model> read_unigram(const Config& config);
std::unique_ptr<const Model> read_word_piece(const Config& config);
std::unique_ptr<const Model> read_word_level(const Config& config);

/// The ids of <0x00> to <0xFF>; -1 for an absent one.
std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary);

/// The id of a token which must be in the vocabulary; the key of the configuration names it.
int32_t need_token(const Vocabulary& vocabulary, const Config& config, const std::string& key);

}  // namespace fk::text
