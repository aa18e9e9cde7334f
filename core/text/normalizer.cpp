// SPDX-License-Identifier: Apache-2.0

#include "core/text/normalizer.hpp"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "core/base/text.hpp"
#include "core/text/byte_alphabet.hpp"
#include "core/text/pattern.hpp"
#include "core/text/unicode.hpp"

namespace fk::text {
namespace {

// Calls each(code) for every character.
template <class Each>
void for_characters(std::string_view text, const Each& each) {
  for (std::size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    each(c.code);
    at += c.size;
  }
}

bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string lowered(std::string_view text) {
  std::string out;
  for_characters(text, [&](char32_t c) { append_lower(out, c); });
  return out;
}

Normalizer bert(const Config& config) {
  const bool clean = config.boolean("clean_text", true);
  const bool chinese = config.boolean("handle_chinese_chars", true);
  const bool lower = config.boolean("lowercase", true);
  const bool strip = config.boolean("strip_accents", lower);
  return [=](std::string_view text) {
    std::string out;
    for_characters(text, [&](char32_t c) {
      const bool space = is_space(c);
      if (clean && (c == 0 || c == kReplacement)) return;
      if (clean && is_other(c) && c != '\t' && c != '\n' && c != '\r') return;
      if (chinese && is_chinese(c)) {
        out += ' ';
        append(out, c);
        out += ' ';
      } else {
        append(out, clean && space ? U' ' : c);
      }
    });
    if (strip) {
      std::string kept;
      for_characters(normal_form(out, Form::nfd), [&](char32_t c) {
        if (!is_nonspacing(c)) append(kept, c);
      });
      out = std::move(kept);
    }
    return lower ? lowered(out) : out;
  };
}

Normalizer form(Form wanted) {
  return [wanted](std::string_view text) { return normal_form(text, wanted); };
}

Normalizer strip(const Config& config) {
  const bool left = config.boolean("strip_left", true), right = config.boolean("strip_right", true);
  return [=](std::string_view text) {
    std::size_t begin = text.size(), end = 0, at = 0;
    for_characters(text, [&](char32_t c) {
      const std::size_t after = at + character_size(text[at]);
      if (!is_space(c)) {
        begin = std::min(begin, at);
        end = after;
      }
      at = after;
    });
    if (!left) begin = 0;
    if (!right) end = text.size();
    return begin < end ? std::string(text.substr(begin, end - begin)) : std::string();
  };
}

Normalizer sequence(const Config& config) {
  std::vector<Normalizer> steps;
  for (const Config& step : config.children("normalizers")) steps.push_back(read_normalizer(step));
  return [steps](std::string_view text) {
    std::string out(text);
    for (const Normalizer& step : steps) out = step(out);
    return out;
  };
}

Normalizer replace(const Config& config) {
  return [pattern = Pattern(config), content = config.text("content")](std::string_view text) {
    return replaced(pattern, text, content);
  };
}

Normalizer prepend(const Config& config) {
  return [prefix = config.text("prepend")](std::string_view text) {
    return text.empty() ? std::string() : prefix + std::string(text);
  };
}

// Sequence models for translation need this.
std::string without_controls(std::string_view text) {
  std::string out;
  for_characters(text, [&](char32_t c) {
    const bool gone = (c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F ||
                      c == 0x8F || c == 0x9F;
    const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == kReplacement;
    if (!gone) append(out, space ? U' ' : c);
  });
  return out;
}

std::string without_marks(std::string_view text) {
  std::string out;
  for_characters(text, [&](char32_t c) {
    if (!is_mark(c)) append(out, c);
  });
  return out;
}

std::string lettered(std::string_view text) {
  std::string out;
  for (const char c : text) out += letter_of(static_cast<unsigned char>(c));
  return out;
}

template <auto function>
Normalizer plain(const Config&) {
  return [](std::string_view text) { return function(text); };
}

const std::map<std::string, Normalizer (*)(const Config&)>& kinds() {
  static const std::map<std::string, Normalizer (*)(const Config&)> all = {
      {"BertNormalizer", bert},
      {"ByteLevel", plain<lettered>},
      {"Lowercase", plain<lowered>},
      {"NFC", [](const Config&) { return form(Form::nfc); }},
      {"NFD", [](const Config&) { return form(Form::nfd); }},
      {"NFKC", [](const Config&) { return form(Form::nfkc); }},
      {"NFKD", [](const Config&) { return form(Form::nfkd); }},
      {"Nmt", plain<without_controls>},
      {"Precompiled", read_precompiled},
      {"Prepend", prepend},
      {"Replace", replace},
      {"Sequence", sequence},
      {"Strip", strip},
      {"StripAccents", plain<without_marks>},
  };
  return all;
}

}  // namespace

Normalizer read_normalizer(const Config& config) {
  const std::string type = config.text("type");
  const auto kind = kinds().find(type);
  if (kind == kinds().end()) {
    std::vector<std::string> names;
    for (const auto& [name, make] : kinds()) names.push_back(name);
    config.fail_at("type", fmt::format("the normalizer `{}` is not supported", excerpt(type)),
                   did_you_mean(type, names));
  }
  return kind->second(config);
}

}  // namespace fk::text
