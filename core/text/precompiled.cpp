// SPDX-License-Identifier: Apache-2.0
//
// SentencePiece's table of replacements: a double-array trie (the format of Darts-clone), then the
// replacements, each with a NUL at its end.

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "core/text/normalizer.hpp"
#include "core/text/unicode.hpp"

static_assert(std::endian::native == std::endian::little, "the table has little-endian numbers");

namespace fk::text {
namespace {

std::optional<std::string> base64_decoded(std::string_view text) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  for (const char c : text) {
    constexpr std::string_view kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

class Replacements {
 public:
  explicit Replacements(const Config& config) {
    const auto bytes = base64_decoded(config.text("precompiled_charsmap"));
    uint32_t size = 0;
    if (!bytes) config.fail_at("precompiled_charsmap", "expected base64");
    if (bytes->size() >= 4) std::memcpy(&size, bytes->data(), 4);
    if (size < 4 || size % 4 != 0 || size > bytes->size() - 4) {
      config.fail_at("precompiled_charsmap",
                     fmt::format("the table has {} of {} bytes", size, bytes->size()));
    }
    units_.resize(size / 4);
    std::memcpy(units_.data(), bytes->data() + 4, size);
    texts_ = bytes->substr(4 + size);
    if (valid_bytes(texts_) != texts_.size()) {
      config.fail_at("precompiled_charsmap", "a replacement is not UTF-8");
    }
  }

  std::string apply(std::string_view text) const {
    std::string out;
    while (!text.empty()) {
      const std::size_t size = grapheme_size(text);
      put(text.substr(0, size), out);
      text.remove_prefix(size);
    }
    return out;
  }

 private:
  // One grapheme cluster: the replacement of a short one, else replacements of its characters.
  void put(std::string_view cluster, std::string& out) const {
    if (cluster.size() < 6) {
      if (const auto text = find(cluster)) {
        out += *text;
        return;
      }
    }
    for (std::size_t at = 0; at < cluster.size();) {
      const std::string_view c = cluster.substr(at, character_size(cluster[at]));
      out += find(c).value_or(c);
      at += c.size();
    }
  }

  // The replacement of the shortest known prefix: tokenizers takes this one for the whole key.
  std::optional<std::string_view> find(std::string_view key) const {
    std::size_t node = offset(units_[0]);
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) break;
      node ^= byte;
      if (node >= units_.size()) return std::nullopt;
      const uint32_t unit = units_[node];
      if ((unit & 0x800000FFu) != byte) return std::nullopt;
      node ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (node >= units_.size()) return std::nullopt;
      const std::size_t begin = units_[node] & 0x7FFFFFFFu;
      // A place in the middle of a character would make invalid text.
      if (begin >= texts_.size() || (static_cast<unsigned char>(texts_[begin]) & 0xC0) == 0x80) {
        return std::nullopt;
      }
      return std::string_view(texts_.c_str() + begin);
    }
    return std::nullopt;
  }

  static std::size_t offset(uint32_t unit) { return unit >> 10 << ((unit & 0x200u) >> 6); }

  std::vector<uint32_t> units_;
  std::string texts_;
};

}  // namespace

Normalizer read_precompiled(const Config& config) {
  // Some files have an empty table, which changes nothing.
  if (config.text("precompiled_charsmap", "").empty()) {
    return [](std::string_view text) { return std::string(text); };
  }
  const auto table = std::make_shared<const Replacements>(config);
  return [table](std::string_view text) { return table->apply(text); };
}

}  // namespace fk::text
