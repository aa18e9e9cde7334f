// SPDX-License-Identifier: Apache-2.0
//
// Unigram: the tokens of a word have the highest sum of scores.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/text/byte_trie.hpp"
#include "core/text/model.hpp"
#include "core/text/unicode.hpp"

namespace fk::text {
namespace {

// An unknown character scores this much less than the worst token.
constexpr double kUnknownPenalty = 10;

// A score as the package `tokenizers` has it. Its reader of JSON divides the digits, as one whole
// number, by a power of ten, which may be wrong in the last bit. Equal sums of scores, and so the
// choice between two ways to cut a word, depend on this bit.
double score_of(double exact) {
  char text[64];
  const auto end =
      std::to_chars(text, text + sizeof text, std::abs(exact), std::chars_format::scientific);
  uint64_t digits = 0;
  int exponent = 0;
  bool point = false;
  for (const char* at = text; at != end.ptr; ++at) {
    if (*at == '.') {
      point = true;
    } else if (*at == 'e') {
      const bool sign = at[1] == '+';
      int written = 0;
      std::from_chars(at + 1 + sign, end.ptr, written);
      exponent += written;
      break;
    } else {
      digits = digits * 10 + static_cast<uint64_t>(*at - '0');
      exponent -= point;
    }
  }
  // Powers of ten up to 22 are exact. Scores are logarithms, so they have no larger ones.
  if (exponent > 0 || exponent < -22) return exact;
  double power = 1;
  for (int i = 0; i < -exponent; ++i) power *= 10;
  return std::copysign(static_cast<double>(digits) / power, exact);
}

class UnigramModel : public Model {
 public:
  UnigramModel(const Config& config, Vocabulary vocabulary, std::vector<double> scores)
      : Model(std::move(vocabulary)), scores_(std::move(scores)) {
    std::vector<std::pair<std::string, int32_t>> entries;
    const std::vector<std::string>& tokens = this->vocabulary().tokens();
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (!tokens[id].empty()) entries.emplace_back(tokens[id], static_cast<int32_t>(id));
    }
    trie_ = ByteTrie(std::move(entries));
    worst_ = *std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty;
    if (config.has("unk_id")) {
      unknown_ = config.integer("unk_id");
      if (unknown_ < 0 || unknown_ >= static_cast<int64_t>(scores_.size())) {
        config.fail_at("unk_id", fmt::format("expected 0 to {}", scores_.size() - 1));
      }
    }
    if (config.boolean("byte_fallback", false)) fallback_ = byte_tokens(this->vocabulary());
  }

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    // The best tokens of each prefix: the last one of them, and the sum of the scores.
    struct Best {
      std::size_t begin = SIZE_MAX;
      double score = 0;
      int64_t id = 0;
    };
    thread_local std::vector<Best> best;
    best.assign(word.size() + 1, {});
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t size = character_size(word[at]);
      const double before = best[at].score;
      const auto offer = [&](std::size_t length, double score, int64_t id) {
        Best& place = best[at + length];
        if (place.begin == SIZE_MAX || score > place.score) place = {at, score, id};
      };
      bool single = false;  // a token is this one character
      trie_.prefixes(word.substr(at), [&](std::size_t length, int32_t id) {
        offer(length, scores_[static_cast<std::size_t>(id)] + before, id);
        single |= length == size;
      });
      if (!single) {
        if (unknown_ < 0) fail("text", "a character has no token, and the tokenizer has no unk_id");
        offer(size, worst_ + before, unknown_);
      }
      at += size;
    }
    std::vector<std::string_view> parts;  // from the last one; unknown neighbours are one
    bool joined = false;
    for (std::size_t end = word.size(); end > 0; end = best[end].begin) {
      const std::string_view part = word.substr(best[end].begin, end - best[end].begin);
      const bool unknown = best[end].id == unknown_;
      if (unknown && joined) {
        parts.back() = {part.data(), part.size() + parts.back().size()};
      } else {
        parts.push_back(part);
      }
      joined = unknown;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) put(*part, ids);
  }

 private:
  void put(std::string_view part, std::vector<int32_t>& ids) const {
    if (const auto id = vocabulary().id(part)) return ids.push_back(*id);
    const auto byte_id = [&](char c) { return fallback_[static_cast<unsigned char>(c)]; };
    const bool bytes = !fallback_.empty() && std::all_of(part.begin(), part.end(),
                                                         [&](char c) { return byte_id(c) >= 0; });
    if (!bytes) return ids.push_back(static_cast<int32_t>(unknown_));
    for (const char c : part) ids.push_back(byte_id(c));
  }

  ByteTrie trie_;
  std::vector<double> scores_;
  double worst_ = 0;
  int64_t unknown_ = -1;  // -1: none
  std::vector<int32_t> fallback_;
};

}  // namespace

std::unique_ptr<const Model> read_unigram(const Config& config) {
  config.ignore("vocab");
  if (!config.is_list("vocab")) config.fail_at("vocab", "expected a list of tokens and scores");
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (const Json& entry : config.json()["vocab"]) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      config.fail_at("vocab", fmt::format("entry {} is not a token and its score", scores.size()));
    }
    vocabulary.add(entry[0].get<std::string>(), static_cast<int64_t>(scores.size()),
                   config.where());
    scores.push_back(score_of(entry[1].get<double>()));
  }
  if (scores.empty()) config.fail_at("vocab", "expected at least one token");
  return std::make_unique<UnigramModel>(config, std::move(vocabulary), std::move(scores));
}

}  // namespace fk::text
