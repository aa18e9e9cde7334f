// SPDX-License-Identifier: Apache-2.0
//
// Characters of UTF-8 text: reading, writing, classes and normal forms, by utf8proc.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fk::text {

inline constexpr char32_t kReplacement = 0xFFFD;  ///< stands for bytes that are not UTF-8
inline constexpr std::string_view kReplacementText = "\xEF\xBF\xBD";

struct Character {
  char32_t code = 0;
  std::size_t size = 0;  ///< in bytes, at least 1
};

/// The character at byte `at` of valid UTF-8; `at` is inside the text and begins a character.
Character character_at(std::string_view utf8, std::size_t at);

/// The number of bytes of the character which begins with this byte, in valid UTF-8.
std::size_t character_size(char first);

void append(std::string& utf8, char32_t code);

/// The number of valid bytes at the beginning; the size of the text if all of it is UTF-8.
std::size_t valid_bytes(std::string_view text);

/// The text with U+FFFD for each longest invalid part, as Rust and Python replace it.
std::string valid_utf8(std::string_view text);

/// The number of bytes at the end which begin a character and may become one with more bytes.
std::size_t unfinished_bytes(std::string_view text);

bool is_space(char32_t code);        ///< White_Space
bool is_numeric(char32_t code);      ///< Nd, Nl, No
bool is_punctuation(char32_t code);  ///< P* and all ASCII signs and symbols
bool is_mark(char32_t code);         ///< Mn, Mc, Me
bool is_nonspacing(char32_t code);   ///< Mn
bool is_other(char32_t code);        ///< Cc, Cf, Co
bool is_word(char32_t code);         ///< \w: letters, marks, decimal digits, connectors, joiners

/// All lower-case letters of one character; no context is used.
void append_lower(std::string& utf8, char32_t code);

enum class Form { nfc, nfd, nfkc, nfkd };
std::string normal_form(std::string_view utf8, Form form);

/// Splits after each extended grapheme cluster: the size in bytes of the first one.
std::size_t grapheme_size(std::string_view utf8);

}  // namespace fk::text
