// SPDX-License-Identifier: Apache-2.0

#include "core/text/tokenizer.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/io.hpp"
#include "core/base/json.hpp"
#include "core/base/text.hpp"
#include "core/text/added_tokens.hpp"
#include "core/text/decoder.hpp"
#include "core/text/model.hpp"
#include "core/text/normalizer.hpp"
#include "core/text/post_processor.hpp"
#include "core/text/pre_tokenizer.hpp"
#include "core/text/unicode.hpp"

namespace fk::text {
namespace {

// A window of a stream has at most this many ids. A character has at most four bytes, so the text
// of the last ids does not depend on earlier ones.
constexpr std::size_t kWindowMax = 32, kWindowKept = 8;

}  // namespace

struct Tokenizer::Parts {
  std::unique_ptr<const Model> model;
  AddedTokens added;
  Normalizer normalizer;       // may be empty
  PreTokenizer pre_tokenizer;  // may be empty
  PostProcessor post_processor;
  Decoder decoder;  // may be empty

  // Ids of a text without added tokens, which is normalized.
  void encode_words(const Piece& piece, std::vector<int32_t>& ids) const {
    if (!pre_tokenizer) return model->encode(piece.text, ids);
    Texts texts;
    thread_local std::vector<Piece> words;
    words.clear();
    pre_tokenizer(piece, texts, words);
    for (const Piece& word : words) model->encode(word.text, ids);
  }

  // Ids of a text without added tokens which are looked for in raw text.
  void encode_part(std::string_view text, bool first, std::vector<int32_t>& ids) const {
    std::string normal;
    if (normalizer) {
      // A text whose first character is left out does not count as the beginning of the input.
      first = first && !normalizer(text.substr(0, character_size(text.front()))).empty();
      text = normal = normalizer(text);
    }
    std::vector<AddedTokens::Part> parts;
    added.split(text, true, parts);
    for (const AddedTokens::Part& part : parts) {
      if (part.id >= 0) {
        ids.push_back(part.id);
      } else {
        encode_words({part.text, first && part.text.data() == text.data()}, ids);
      }
    }
  }
};

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return read(read_file(path), path.string());
}

Tokenizer Tokenizer::read(std::string_view json, const std::string& name) {
  const Config file(parse_json(json, name), name);
  const Config config = file.watched();
  const auto parts = std::make_shared<Parts>();
  bool bytes = false;
  if (config.has("normalizer")) parts->normalizer = read_normalizer(config.child("normalizer"));
  if (config.has("pre_tokenizer")) {
    const Config part = config.child("pre_tokenizer");
    bytes = makes_bytes(part);
    parts->pre_tokenizer = read_pre_tokenizer(part);
  }
  parts->model = read_model(config.child("model"), bytes);
  if (config.has("added_tokens")) {
    parts->added =
        AddedTokens(config.children("added_tokens"), parts->model->vocabulary(), parts->normalizer);
  }
  if (config.has("post_processor")) {
    parts->post_processor = PostProcessor(config.child("post_processor"));
  }
  if (config.has("decoder")) parts->decoder = read_decoder(config.child("decoder"));
  for (const char* key : {"version", "truncation", "padding"}) config.ignore(key);
  file.refuse_unread(config, {});
  return Tokenizer(parts);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special) const {
  std::string valid;
  if (valid_bytes(text) != text.size()) text = valid = valid_utf8(text);
  std::vector<int32_t> ids;
  std::vector<AddedTokens::Part> found;
  parts_->added.split(text, false, found);
  for (const AddedTokens::Part& part : found) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      parts_->encode_part(part.text, part.text.data() == text.data(), ids);
    }
  }
  return add_special ? parts_->post_processor.apply(std::move(ids)) : ids;
}

std::string Tokenizer::decoded(std::span<const int32_t> ids, bool skip_special, bool whole) const {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) {
    if (knows(id) && !(skip_special && is_special(id))) tokens.push_back(token(id));
  }
  if (!parts_->decoder) return join(tokens, " ");
  return join(parts_->decoder(std::move(tokens), whole), "");
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  return decoded(ids, skip_special, true);
}

std::string Tokenizer::decode_part(std::span<const int32_t> ids, bool skip_special) const {
  return decoded(ids, skip_special, false);
}

int32_t Tokenizer::size() const {
  auto size = static_cast<int32_t>(parts_->model->vocabulary().tokens().size());
  for (const AddedToken& token : parts_->added.all()) size = std::max(size, token.id + 1);
  return size;
}

std::optional<int32_t> Tokenizer::id(std::string_view token) const {
  if (const AddedToken* added = parts_->added.find(token)) return added->id;
  return parts_->model->vocabulary().id(token);
}

std::string Tokenizer::token(int32_t id) const {
  if (const AddedToken* added = parts_->added.find(id)) return added->content;
  const std::string* token = parts_->model->vocabulary().token(id);
  return token == nullptr ? "" : *token;
}

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* added = parts_->added.find(id);
  return added != nullptr && added->special;
}

bool Tokenizer::knows(int32_t id) const {
  return parts_->added.find(id) != nullptr || parts_->model->vocabulary().token(id) != nullptr;
}

std::string Detokenizer::push(int32_t id) {
  if (!tokenizer_.knows(id) || (skip_special_ && tokenizer_.is_special(id))) return "";
  window_.push_back(id);
  const std::string text = tokenizer_.decode_part(window_, skip_special_);
  const std::size_t held = unfinished_bytes(text), end = text.size() - held;
  std::string result;
  if (end > given_) {
    result = text.substr(given_, end - given_);
    given_ = end;
  }
  if (held == 0 || window_.size() > kWindowMax) {
    const std::size_t kept = held == 0 ? 1 : kWindowKept;
    window_.erase(window_.begin(), window_.end() - static_cast<std::ptrdiff_t>(kept));
    given_ = tokenizer_.decode_part(window_, skip_special_).size() - held;
  }
  return result;
}

std::string Detokenizer::finish() {
  const std::string text = tokenizer_.decode_part(window_, skip_special_);
  std::string result = text.size() > given_ ? valid_utf8(text.substr(given_)) : "";
  window_.clear();
  given_ = 0;
  return result;
}

}  // namespace fk::text
