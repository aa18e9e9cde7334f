// SPDX-License-Identifier: Apache-2.0

#include "core/text/added_tokens.hpp"

#include <fmt/format.h>

#include "core/base/text.hpp"
#include "core/text/unicode.hpp"

namespace fk::text {
namespace {

// The character before a place.
char32_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return character_at(text, at).code;
}

bool begins_word(std::string_view text) {
  return !text.empty() && is_word(character_at(text, 0).code);
}
bool ends_word(std::string_view text) { return !text.empty() && is_word(last_character(text)); }

std::size_t spaces_at_end(std::string_view text) {
  const std::size_t size = text.size();
  while (!text.empty() && is_space(last_character(text))) {
    do text.remove_suffix(1);
    while ((static_cast<unsigned char>(text.data()[text.size()]) & 0xC0) == 0x80);
  }
  return size - text.size();
}

std::size_t spaces_at_begin(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && is_space(character_at(text, at).code)) at += character_size(text[at]);
  return at;
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<Config>& tokens, const Vocabulary& vocabulary,
                         const Normalizer& normalizer) {
  for (const Config& config : tokens) {
    AddedToken token;
    token.content = config.text("content");
    const int64_t id = config.integer("id");
    if (id < 0 || id > INT32_MAX) config.fail_at("id", "expected 0 to 2147483647");
    token.id = static_cast<int32_t>(id);
    token.single_word = config.boolean("single_word", false);
    token.lstrip = config.boolean("lstrip", false);
    token.rstrip = config.boolean("rstrip", false);
    token.special = config.boolean("special", false);
    token.normalized = config.boolean("normalized", !token.special);
    const auto known = vocabulary.id(token.content);
    if (known && *known != token.id) {
      config.fail_at("id", fmt::format("`{}` has the id {} in the vocabulary",
                                       excerpt(token.content), *known));
    }
    if (!by_id_.emplace(token.id, tokens_.size()).second) {
      config.fail_at("id", fmt::format("{} is there twice", token.id));
    }
    tokens_.push_back(std::move(token));
  }
  std::vector<std::pair<std::string, int32_t>> raw, normalized;
  for (const bool special : {true, false}) {  // of equal texts the special token counts
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& token = tokens_[i];
      if (token.special != special || token.content.empty()) continue;
      auto& list = token.normalized ? normalized : raw;
      list.emplace_back(token.normalized && normalizer ? normalizer(token.content) : token.content,
                        static_cast<int32_t>(i));
    }
  }
  raw_ = ByteTrie(std::move(raw));
  normalized_ = ByteTrie(std::move(normalized));
}

void AddedTokens::split(std::string_view text, bool normalized, std::vector<Part>& parts) const {
  const ByteTrie& trie = normalized ? normalized_ : raw_;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size() && !trie.empty();) {
    std::size_t size = 0;
    int32_t found = -1;
    trie.prefixes(text.substr(at), [&](std::size_t length, int32_t value) {
      size = length;
      found = value;
    });
    if (found < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found)];
    std::size_t begin = at, end = at + size;
    at = end;
    if (token.single_word && (ends_word(text.substr(0, begin)) || begins_word(text.substr(end)))) {
      continue;
    }
    if (token.lstrip) {
      begin = std::max(done, begin - spaces_at_end(text.substr(0, begin)));
    }
    if (token.rstrip) end += spaces_at_begin(text.substr(end));
    if (done < begin) parts.push_back({text.substr(done, begin - done), -1});
    parts.push_back({text.substr(begin, end - begin), token.id});
    done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), -1});
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto place = by_id_.find(id);
  return place == by_id_.end() ? nullptr : &tokens_[place->second];
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  for (const AddedToken& token : tokens_) {
    if (token.content == content) return &token;
  }
  return nullptr;
}

}  // namespace fk::text
