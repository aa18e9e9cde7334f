// SPDX-License-Identifier: Apache-2.0

#include "core/text/byte_alphabet.hpp"

#include <array>

#include "core/text/unicode.hpp"

namespace fk::text {
namespace {

struct Letters {
  std::array<std::string, 256> letter;
  std::array<int, 0x200> byte{};  // by code; -1: no letter

  Letters() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (char32_t b = 0; b < 256; ++b) {
      const bool visible = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      const char32_t code = visible ? b : next++;
      append(letter[b], code);
      byte[code] = static_cast<int>(b);
    }
  }
};

const Letters& letters() {
  static const Letters all;
  return all;
}

}  // namespace

const std::string& letter_of(unsigned char byte) { return letters().letter[byte]; }

std::optional<std::string> bytes_of(std::string_view token) {
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    const Character c = character_at(token, at);
    if (c.code >= letters().byte.size() || letters().byte[c.code] < 0) return std::nullopt;
    bytes += static_cast<char>(letters().byte[c.code]);
    at += c.size;
  }
  return bytes;
}

}  // namespace fk::text
