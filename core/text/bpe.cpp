// SPDX-License-Identifier: Apache-2.0
//
// Byte-pair encoding: a word begins as its characters, and the pair with the lowest rank is merged
// until no pair has a rank.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>
#include <queue>

#include "core/base/text.hpp"
#include "core/text/byte_alphabet.hpp"
#include "core/text/model.hpp"
#include "core/text/unicode.hpp"

namespace fk::text {
namespace {

// Words with more symbols use a heap. Up to this length a scan for the lowest rank is quicker.
constexpr std::size_t kScannedMax = 48;

constexpr uint32_t kNoRank = UINT32_MAX;

struct MergeOf {
  uint64_t pair = UINT64_MAX;
  uint32_t rank = kNoRank;
  int32_t id = -1;
};

// From pairs of ids to merges: a hash table with open addressing, at most half full.
class MergeTable {
 public:
  explicit MergeTable(std::size_t count) {
    std::size_t size = 16;
    while (size < 2 * count) size *= 2;
    slots_.resize(size);
    mask_ = size - 1;
  }

  // A later rank of the same pair replaces the earlier one, as in a map.
  void put(int32_t left, int32_t right, uint32_t rank, int32_t id) {
    MergeOf& slot = slots_[place(pair_of(left, right))];
    slot = {pair_of(left, right), rank, id};
  }

  const MergeOf& find(int32_t left, int32_t right) const {
    return slots_[place(pair_of(left, right))];
  }

 private:
  static uint64_t pair_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }

  std::size_t place(uint64_t pair) const {
    uint64_t hash = pair * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
    std::size_t at = hash & mask_;
    while (slots_[at].pair != pair && slots_[at].pair != UINT64_MAX) at = (at + 1) & mask_;
    return at;
  }

  std::vector<MergeOf> slots_;
  std::size_t mask_ = 0;
};

// Ids of words which a thread has seen. One entry is one line of a processor's cache.
struct alignas(64) SeenWord {
  uint32_t owner = 0;  // number of the model; 0: an empty entry
  uint8_t size = 0, count = 0;
  std::array<char, 26> word{};
  std::array<int32_t, 8> ids{};
};
constexpr std::size_t kSeenWords = std::size_t{1} << 15;

std::vector<SeenWord>& seen_words() {
  thread_local std::vector<SeenWord> words(kSeenWords);
  return words;
}

uint64_t hash_of(std::string_view word) {
  uint64_t hash = 0x9E3779B97F4A7C15u ^ word.size();
  while (word.size() >= 8) {
    uint64_t part;
    std::memcpy(&part, word.data(), 8);
    hash = (hash ^ part) * 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 32;
    word.remove_prefix(8);
  }
  uint64_t part = 0;
  std::memcpy(&part, word.data(), word.size());
  hash = (hash ^ part) * 0xFF51AFD7ED558CCDu;
  return hash ^ hash >> 32;
}

// A symbol of a word while it is merged.
struct Symbol {
  int32_t id;
  int32_t before, after;  // neighbours; -1: none
};

class BpeModel : public Model {
 public:
  BpeModel(const Config& config, Vocabulary vocabulary, bool bytes)
      : Model(std::move(vocabulary)),
        bytes_(bytes),
        whole_words_(config.boolean("ignore_merges", false)),
        fuse_unknown_(config.boolean("fuse_unk", false)),
        prefix_(config.text("continuing_subword_prefix", "")),
        suffix_(config.text("end_of_word_suffix", "")),
        merges_(config.has("merges") ? config.json()["merges"].size() : 0) {
    if (config.number("dropout", 0) != 0) {
      config.fail_at("dropout", "random merges are for training; expected null or 0");
    }
    if (config.has("unk_token")) unknown_ = need_token(this->vocabulary(), config, "unk_token");
    if (config.boolean("byte_fallback", false)) fallback_ = byte_tokens(this->vocabulary());
    read_merges(config);
    if (bytes_) read_bytes();
    static std::atomic<uint32_t> models{0};
    number_ = ++models;
  }

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    if (word.size() > std::tuple_size_v<decltype(SeenWord::word)>) return encode_new(word, ids);
    SeenWord& seen = seen_words()[hash_of(word) & (kSeenWords - 1)];
    if (seen.owner == number_ && seen.size == word.size() &&
        std::memcmp(seen.word.data(), word.data(), word.size()) == 0) {
      ids.insert(ids.end(), seen.ids.begin(), seen.ids.begin() + seen.count);
      return;
    }
    const std::size_t before = ids.size();
    encode_new(word, ids);
    const std::size_t count = ids.size() - before;
    if (count > seen.ids.size()) return;
    seen.owner = number_;
    seen.size = static_cast<uint8_t>(word.size());
    seen.count = static_cast<uint8_t>(count);
    std::copy(word.begin(), word.end(), seen.word.begin());
    std::copy(ids.end() - static_cast<std::ptrdiff_t>(count), ids.end(), seen.ids.begin());
  }

 private:
  void read_merges(const Config& config) {
    config.ignore("merges");
    if (!config.is_list("merges")) config.fail_at("merges", "expected a list of pairs");
    uint32_t rank = 0;
    for (const Json& merge : config.json()["merges"]) {
      std::string left, right;
      if (merge.is_string()) {  // files of older versions have "left right"
        const auto& text = merge.get_ref<const std::string&>();
        const std::size_t space = text.find(' ');
        left = text.substr(0, space);
        if (space != std::string::npos) right = text.substr(space + 1);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                 merge[1].is_string()) {
        left = merge[0].get<std::string>();
        right = merge[1].get<std::string>();
      }
      const auto first = vocabulary().id(left), second = vocabulary().id(right);
      const bool cut = right.size() > prefix_.size() && !prefix_.empty();
      const auto whole = vocabulary().id(left + (cut ? right.substr(prefix_.size()) : right));
      if (!first || !second || !whole) {
        config.fail_at("merges", fmt::format("merge {}, `{}` and `{}`, is no pair of tokens whose "
                                             "whole is in the vocabulary",
                                             rank, excerpt(left), excerpt(right)));
      }
      merges_.put(*first, *second, rank++, *whole);
    }
  }

  // The vocabulary by bytes in place of letters.
  void read_bytes() {
    const std::vector<std::string>& tokens = vocabulary().tokens();
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      if (tokens[id].empty()) continue;
      if (const auto word = bytes_of(tokens[id])) words_.add(*word, static_cast<int64_t>(id), "");
    }
    if (!prefix_.empty()) prefix_ = bytes_of(prefix_).value_or(prefix_);
    if (!suffix_.empty()) suffix_ = bytes_of(suffix_).value_or(suffix_);
    for (std::size_t byte = 0; byte < 256; ++byte) {
      byte_ids_[byte] = words_.id(std::string(1, static_cast<char>(byte))).value_or(-1);
    }
  }

  const Vocabulary& words() const { return bytes_ ? words_ : vocabulary(); }

  void encode_new(std::string_view word, std::vector<int32_t>& ids) const {
    if (whole_words_) {
      if (const auto id = words().id(word)) return ids.push_back(*id);
    }
    thread_local std::vector<int32_t> symbols;
    symbols.clear();
    begin(word, symbols);
    if (symbols.size() <= kScannedMax) {
      merge_scanned(symbols);
    } else {
      merge_heaped(symbols);
    }
    ids.insert(ids.end(), symbols.begin(), symbols.end());
  }

  // The characters of a word.
  void begin(std::string_view word, std::vector<int32_t>& symbols) const {
    bool unknown = false;  // an unknown symbol waits for the next known one
    std::string text;
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t size = bytes_ ? 1 : character_size(word[at]);
      const bool first = at == 0, last = at + size == word.size();
      std::optional<int32_t> id;
      if (bytes_ && (first || prefix_.empty()) && (!last || suffix_.empty())) {
        const int32_t known = byte_ids_[static_cast<unsigned char>(word[at])];
        if (known >= 0) id = known;
      } else {
        text.assign(first ? "" : prefix_);
        text += word.substr(at, size);
        if (last) text += suffix_;
        id = words().id(text);
      }
      if (id) {
        if (unknown) symbols.push_back(*unknown_);
        unknown = false;
        symbols.push_back(*id);
      } else if (!fall_back(text, symbols) && unknown_) {
        if (unknown && !fuse_unknown_) symbols.push_back(*unknown_);
        unknown = true;
      }
      at += size;
    }
    if (unknown) symbols.push_back(*unknown_);
  }

  bool fall_back(std::string_view text, std::vector<int32_t>& symbols) const {
    if (fallback_.empty() || bytes_) return false;
    const auto id_of = [&](char c) { return fallback_[static_cast<unsigned char>(c)]; };
    for (const char c : text) {
      if (id_of(c) < 0) return false;
    }
    for (const char c : text) symbols.push_back(id_of(c));
    return true;
  }

  void merge_scanned(std::vector<int32_t>& symbols) const {
    std::array<const MergeOf*, kScannedMax> merges;
    std::size_t count = symbols.size();
    for (std::size_t i = 0; i + 1 < count; ++i) {
      merges[i] = &merges_.find(symbols[i], symbols[i + 1]);
    }
    while (count > 1) {
      std::size_t best = 0;
      for (std::size_t i = 1; i + 1 < count; ++i) {
        if (merges[i]->rank < merges[best]->rank) best = i;
      }
      if (merges[best]->rank == kNoRank) break;
      symbols[best] = merges[best]->id;
      std::copy(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 2,
                symbols.begin() + static_cast<std::ptrdiff_t>(count),
                symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      std::copy(merges.data() + best + 1, merges.data() + count - 1, merges.data() + best);
      --count;
      if (best > 0) merges[best - 1] = &merges_.find(symbols[best - 1], symbols[best]);
      if (best + 1 < count) merges[best] = &merges_.find(symbols[best], symbols[best + 1]);
    }
    symbols.resize(count);
  }

  void merge_heaped(std::vector<int32_t>& symbols) const {
    struct Waiting {
      uint32_t rank;
      int32_t place, id;
      bool operator>(const Waiting& other) const {
        return rank != other.rank ? rank > other.rank : place > other.place;
      }
    };
    std::priority_queue<Waiting, std::vector<Waiting>, std::greater<>> queue;
    std::vector<Symbol> list(symbols.size());
    const auto at = [&](int32_t place) -> Symbol& { return list[static_cast<std::size_t>(place)]; };
    const auto count = static_cast<int32_t>(symbols.size());
    const auto wait = [&](int32_t place) {
      if (place < 0 || at(place).after < 0) return;
      const MergeOf& merge = merges_.find(at(place).id, at(at(place).after).id);
      if (merge.rank != kNoRank) queue.push({merge.rank, place, merge.id});
    };
    for (int32_t i = 0; i < count; ++i) {
      at(i) = {symbols[static_cast<std::size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1};
    }
    for (int32_t i = 0; i < count; ++i) wait(i);
    while (!queue.empty()) {
      const Waiting top = queue.top();
      queue.pop();
      Symbol& symbol = at(top.place);
      if (symbol.id < 0 || symbol.after < 0) continue;
      // The symbols may have changed since the entry was made.
      if (merges_.find(symbol.id, at(symbol.after).id).id != top.id) continue;
      Symbol& gone = at(symbol.after);
      symbol.id = top.id;
      symbol.after = gone.after;
      gone.id = -1;
      if (symbol.after >= 0) at(symbol.after).before = top.place;
      wait(symbol.before);
      wait(top.place);
    }
    symbols.clear();
    for (int32_t i = 0; i >= 0 && i < count; i = at(i).after) symbols.push_back(at(i).id);
  }

  bool bytes_, whole_words_, fuse_unknown_;
  std::string prefix_, suffix_;
  std::optional<int32_t> unknown_;
  std::vector<int32_t> fallback_;  // empty: unknown characters do not become bytes
  MergeTable merges_;
  Vocabulary words_;  // by bytes; only of a byte-level model
  std::array<int32_t, 256> byte_ids_{};
  uint32_t number_ = 0;
};

}  // namespace

std::unique_ptr<const Model> read_bpe(const Config& config, bool bytes) {
  config.ignore("vocab");
  return std::make_unique<BpeModel>(config, Vocabulary(config.child("vocab")), bytes);
}

}  // namespace fk::text
