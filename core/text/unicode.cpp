// SPDX-License-Identifier: Apache-2.0

#include "core/text/unicode.hpp"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "core/base/error.hpp"
#include "core/text/unicode_versions.hpp"

namespace fk::text {
namespace {

// Second bytes which may follow a first byte; other bytes of a character are 80 to BF.
struct SecondByte {
  unsigned char low, high;
};

SecondByte second_byte(unsigned char first) {
  switch (first) {
    case 0xE0:
      return {0xA0, 0xBF};
    case 0xED:
      return {0x80, 0x9F};
    case 0xF0:
      return {0x90, 0xBF};
    case 0xF4:
      return {0x80, 0x8F};
    default:
      return {0x80, 0xBF};
  }
}

std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return 2;
  if (first < 0xF0) return 3;
  return first < 0xF5 ? 4 : 0;
}

// The valid part of a character at `at`: its size, and the size which it should have (0: no
// character begins so).
struct Part {
  std::size_t size, wanted;
};

Part part_at(std::string_view text, std::size_t at) {
  const auto first = static_cast<unsigned char>(text[at]);
  const std::size_t wanted = length_of(first);
  if (wanted < 2) return {wanted, wanted};
  SecondByte range = second_byte(first);
  std::size_t size = 1;
  while (size < wanted && at + size < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at + size]);
    if (byte < range.low || byte > range.high) break;
    range = {0x80, 0xBF};
    ++size;
  }
  return {size, wanted};
}

utf8proc_category_t category(char32_t code) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

std::string mapped(std::string_view utf8, Form form) {
  int options = UTF8PROC_STABLE;
  options |= form == Form::nfc || form == Form::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == Form::nfkc || form == Form::nfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* out = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(utf8.data()),
                                 static_cast<utf8proc_ssize_t>(utf8.size()), &out,
                                 static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(out, &std::free);
  if (size < 0) fail("text", std::string("no normal form: ") + utf8proc_errmsg(size));
  return std::string(reinterpret_cast<const char*>(out), static_cast<std::size_t>(size));
}

}  // namespace

Character character_at(std::string_view utf8, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(utf8[at + i]));
  };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

std::size_t character_size(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

void append(std::string& utf8, char32_t code) {
  const auto put = [&](char32_t byte) { utf8 += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

std::size_t valid_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    const Part part = part_at(text, at);
    if (part.wanted == 0 || part.size < part.wanted) return at;
    at += part.size;
  }
  return at;
}

std::string valid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (true) {
    const std::size_t valid = valid_bytes(text);
    result += text.substr(0, valid);
    if (valid == text.size()) return result;
    result += kReplacementText;
    text.remove_prefix(valid);
    const Part part = part_at(text, 0);
    text.remove_prefix(part.size == 0 ? 1 : part.size);
  }
}

std::size_t unfinished_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const Part part = part_at(text, text.size() - back);
    return part.size == back && part.size < part.wanted ? back : 0;
  }
  return 0;
}

bool is_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_numeric(char32_t code) {
  const auto kind = category(code);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t code) {
  if (code < 0x80) {
    return (code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
           (code >= 123 && code <= 126);
  }
  const auto kind = category(code);
  return (kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO) !=
         punctuation_differs(code);
}

bool is_mark(char32_t code) {
  const auto kind = category(code);
  return (kind >= UTF8PROC_CATEGORY_MN && kind <= UTF8PROC_CATEGORY_ME) != mark_differs(code);
}

bool is_nonspacing(char32_t code) {
  return (category(code) == UTF8PROC_CATEGORY_MN) != nonspacing_differs(code);
}

bool is_other(char32_t code) {
  const auto kind = category(code);
  return (kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF ||
          kind == UTF8PROC_CATEGORY_CO) != control_differs(code);
}

bool is_word(char32_t code) {
  if (code < 0x80) {
    return (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') || code == '_' ||
           (code >= 'a' && code <= 'z');
  }
  const auto kind = category(code);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_ND) ||
         kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_PC || code == 0x200C ||
         code == 0x200D || (code >= 0x24B6 && code <= 0x24E9) ||
         (code >= 0x1F130 && code <= 0x1F149) || (code >= 0x1F150 && code <= 0x1F169) ||
         (code >= 0x1F170 && code <= 0x1F189);
}

void append_lower(std::string& utf8, char32_t code) {
  if (code < 0x80) {
    utf8 += static_cast<char>(code >= 'A' && code <= 'Z' ? code + 32 : code);
  } else if (code == 0x130) {
    utf8 += "i\xCC\x87";  // the one character whose lower case is two
  } else {
    append(utf8, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
  }
}

std::string normal_form(std::string_view utf8, Form form) {
  bool ascii = true;
  for (const char c : utf8) ascii = ascii && static_cast<unsigned char>(c) < 0x80;
  if (ascii) return std::string(utf8);
  if (form == Form::nfc) return mapped(utf8, form);
  std::string result;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < utf8.size();) {
    const Character c = character_at(utf8, at);
    if (c.code >= 0x3000 && stays_whole(c.code)) {
      result += mapped(utf8.substr(begin, at - begin), form);
      result += utf8.substr(at, c.size);
      begin = at + c.size;
    }
    at += c.size;
  }
  return result + mapped(utf8.substr(begin), form);
}

std::size_t grapheme_size(std::string_view utf8) {
  Character last = character_at(utf8, 0);
  std::size_t at = last.size;
  utf8proc_int32_t state = 0;
  while (at < utf8.size()) {
    const Character next = character_at(utf8, at);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                         static_cast<utf8proc_int32_t>(next.code), &state)) {
      break;
    }
    last = next;
    at += next.size;
  }
  return at;
}

}  // namespace fk::text
