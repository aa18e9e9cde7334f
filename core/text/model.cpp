// SPDX-License-Identifier: Apache-2.0

#include "core/text/model.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk::text {
namespace {

constexpr int64_t kIdsMax = 1 << 24;

// Greedy: the longest token at each place.
class WordPieceModel : public Model {
 public:
  WordPieceModel(const Config& config, Vocabulary vocabulary)
      : Model(std::move(vocabulary)),
        unknown_(need_token(this->vocabulary(), config, "unk_token")),
        prefix_(config.text("continuing_subword_prefix", "##")),
        characters_max_(config.integer("max_input_chars_per_word", 100)) {}

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    int64_t characters = 0;
    for (const char c : word) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (characters > characters_max_) return ids.push_back(unknown_);
    const std::size_t before = ids.size();
    std::string part;
    for (std::size_t begin = 0; begin < word.size();) {
      std::size_t end = word.size();
      std::optional<int32_t> id;
      for (; end > begin; --end) {
        if (end < word.size() && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) continue;
        part.assign(begin > 0 ? prefix_ : "");
        part += word.substr(begin, end - begin);
        id = vocabulary().id(part);
        if (id) break;
      }
      if (!id) {
        ids.resize(before);
        return ids.push_back(unknown_);
      }
      ids.push_back(*id);
      begin = end;
    }
  }

 private:
  int32_t unknown_;
  std::string prefix_;
  int64_t characters_max_;
};

class WordLevelModel : public Model {
 public:
  WordLevelModel(const Config& config, Vocabulary vocabulary)
      : Model(std::move(vocabulary)), unknown_(this->vocabulary().id(config.text("unk_token"))) {}

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    const std::optional<int32_t> id = vocabulary().id(word);
    if (!id && !unknown_) fail("text", fmt::format("no token for `{}`", excerpt(word)));
    ids.push_back(id ? *id : *unknown_);
  }

 private:
  std::optional<int32_t> unknown_;
};

}  // namespace

Vocabulary::Vocabulary(const Config& vocab) {
  for (const auto& [token, id] : vocab.json().items()) {
    if (!id.is_number_integer()) {
      vocab.fail(fmt::format("the id of `{}` is no whole number", excerpt(token)));
    }
    add(token, id.get<int64_t>(), vocab.where());
  }
}

void Vocabulary::add(std::string token, int64_t id, const std::string& where) {
  if (id < 0 || id >= kIdsMax) {
    fail(where,
         fmt::format("the id {} of `{}` is outside of 0 to {}", id, excerpt(token), kIdsMax - 1));
  }
  const auto place = static_cast<std::size_t>(id);
  if (place >= tokens_.size()) tokens_.resize(place + 1);
  if (!tokens_[place].empty()) {
    fail(where, fmt::format("the id {} is there twice, as `{}` and `{}`", id,
                            excerpt(tokens_[place]), excerpt(token)));
  }
  tokens_[place] = token;
  ids_.emplace(std::move(token), static_cast<int32_t>(id));
}

std::optional<int32_t> Vocabulary::id(std::string_view token) const {
  const auto place = ids_.find(token);
  return place == ids_.end() ? std::nullopt : std::optional(place->second);
}

const std::string* Vocabulary::token(int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= tokens_.size()) return nullptr;
  const std::string& token = tokens_[static_cast<std::size_t>(id)];
  // An empty token may be in the vocabulary, and an absent one is empty too.
  return token.empty() && this->id("") != id ? nullptr : &token;
}

std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids(256, -1);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    ids[byte] = vocabulary.id(fmt::format("<0x{:02X}>", byte)).value_or(-1);
  }
  return ids;
}

int32_t need_token(const Vocabulary& vocabulary, const Config& config, const std::string& key) {
  const std::string token = config.text(key);
  const std::optional<int32_t> id = vocabulary.id(token);
  if (!id) config.fail_at(key, fmt::format("`{}` is not in the vocabulary", excerpt(token)));
  return *id;
}

std::unique_ptr<const Model> read_word_piece(const Config& config) {
  config.ignore("vocab");
  return std::make_unique<WordPieceModel>(config, Vocabulary(config.child("vocab")));
}

std::unique_ptr<const Model> read_word_level(const Config& config) {
  config.ignore("vocab");
  return std::make_unique<WordLevelModel>(config, Vocabulary(config.child("vocab")));
}

std::unique_ptr<const Model> read_model(const Config& config, bool bytes) {
  // Files of older versions have no type: merges make BPE, a list of scores makes Unigram.
  std::string type = config.text("type", "");
  if (type.empty()) {
    type = config.has("merges")                     ? "BPE"
           : config.is_list("vocab")                ? "Unigram"
           : config.has("max_input_chars_per_word") ? "WordPiece"
                                                    : "WordLevel";
  }
  if (type == "BPE") return read_bpe(config, bytes);
  if (bytes) {
    config.fail_at(
        "type",
        fmt::format("`{}` with a pre-tokenizer `ByteLevel` is not supported", excerpt(type)),
        "use BPE");
  }
  if (type == "Unigram") return read_unigram(config);
  if (type == "WordPiece") return read_word_piece(config);
  if (type == "WordLevel") return read_word_level(config);
  config.fail_at("type", fmt::format("`{}` is not supported", excerpt(type)),
                 did_you_mean(type, {"BPE", "Unigram", "WordPiece", "WordLevel"}));
}

}  // namespace fk::text
