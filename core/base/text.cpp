// SPDX-License-Identifier: Apache-2.0
//
// Suggestions, splitting and numbers with units.

#include "core/base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/base/error.hpp"

namespace fk {
namespace {

// Names are short. The quadratic table is not computed for long hostile words.
constexpr std::size_t kWordMax = 128;

// Optimal string alignment: Levenshtein with swaps of neighbours.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1,
                         above[j - 1] + static_cast<std::size_t>(a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

// One character at the beginning of a text.
struct Character {
  std::size_t bytes = 1;
  bool safe = false;  // a terminal neither obeys it nor reorders other text for it
};

std::size_t bytes_by_first(unsigned char first) {
  return first < 0x80                    ? 1
         : first >= 0xC2 && first < 0xE0 ? 2
         : first >= 0xE0 && first < 0xF0 ? 3
         : first >= 0xF0 && first < 0xF5 ? 4
                                         : 0;
}

bool safe_to_show(uint32_t code) {
  struct Range {
    uint32_t first, last;
  };
  // Control characters, the Arabic letter mark, zero widths and directions, line separators and
  // embeddings, isolates and invisible operators, the byte order mark, annotations, tags.
  constexpr Range kUnsafe[] = {{0x00, 0x1F},     {0x7F, 0x9F},      {0x61C, 0x61C},
                               {0x180E, 0x180E}, {0x200B, 0x200F},  {0x2028, 0x202E},
                               {0x2060, 0x206F}, {0xFEFF, 0xFEFF},  {0xFFF9, 0xFFFB},
                               {0xD800, 0xDFFF}, {0xE0000, 0xE0FFF}};
  return code <= 0x10FFFF && std::none_of(std::begin(kUnsafe), std::end(kUnsafe), [&](Range r) {
           return code >= r.first && code <= r.last;
         });
}

Character character_at(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t bytes = bytes_by_first(first);
  if (bytes == 0 || bytes > text.size()) return {};
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};  // shorter forms are no UTF-8
  uint32_t code = bytes == 1 ? first : first & (0xFFu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {};
    code = code << 6 | (next & 0x3Fu);
  }
  if (code < kLeast[bytes]) return {};
  return {bytes, safe_to_show(code)};
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > kWordMax) return {};
  const std::string wanted = lower(word);
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  const std::string* found = nullptr;
  for (const std::string& candidate : candidates) {
    if (candidate.size() >= word.size() + best || word.size() >= candidate.size() + best) continue;
    const std::size_t d = distance(wanted, lower(candidate));
    // Rewriting a whole short word is no similarity.
    if (d < best && d < std::max(word.size(), candidate.size())) {
      best = d;
      found = &candidate;
    }
  }
  return found == nullptr ? std::string{} : *found;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr std::size_t kShown = 12;
  const std::string found = nearest(word, candidates);
  if (!found.empty()) return "did you mean `" + excerpt(found, 100) + "`?";
  if (candidates.empty()) return {};
  // Names that share the most parts with the word come first, shorter ones before longer ones.
  const auto parts_of = [](std::string_view name) {
    std::string text = lower(name);
    for (char& c : text)
      if (c == '-' || c == '.') c = '_';
    return split(text, '_');
  };
  const std::vector<std::string> parts = parts_of(word);
  std::vector<std::pair<std::size_t, std::string>> ordered;
  for (const auto& name : candidates) {
    std::size_t shared = 0;
    for (const auto& part : parts_of(name)) shared += part.size() > 1 && contains(parts, part);
    ordered.emplace_back(shared, name);
  }
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return a.first > b.first ||
           (a.first == b.first && a.first && a.second.size() < b.second.size());
  });
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(kShown, ordered.size()); ++i)
    shown.push_back(excerpt(ordered[i].second, 100));
  std::string text = "known: " + join(shown, ", ");
  if (candidates.size() > kShown) text += fmt::format(", and {} more", candidates.size() - kShown);
  return text;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != parts.data()) text += separator;
    text += part;
  }
  return text;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool starts_with(std::string_view text, std::string_view prefix) {
  return text.starts_with(prefix);
}
bool ends_with(std::string_view text, std::string_view suffix) { return text.ends_with(suffix); }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return result;
}

std::string excerpt(std::string_view text, std::size_t bytes_max) {
  const bool cut = text.size() > bytes_max;
  if (cut) {
    std::size_t end = bytes_max < 3 ? 0 : bytes_max - 3;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end);
  }
  std::string result;
  while (!text.empty()) {
    const Character next = character_at(text);
    if (next.safe) {
      result += text.substr(0, next.bytes);
    } else {
      for (const char c : text.substr(0, next.bytes))
        result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(next.bytes);
  }
  return cut ? result + "..." : result;
}

std::string printable(std::string_view text, std::string_view kept) {
  std::string result;
  while (!text.empty()) {
    const Character next = character_at(text);
    if (next.safe || kept.find(text[0]) != kept.npos)
      result += text.substr(0, next.bytes);
    else
      result += '?';
    text.remove_prefix(next.bytes);
  }
  return result;
}

std::size_t begun_character(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    return bytes_by_first(byte) > back ? back : 0;
  }
  return 0;
}

std::string bounded(const char* text, std::size_t size) {
  std::string out(text, strnlen(text, size));
  for (auto& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7F) c = '?';
  return out;
}

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

void need_known(const std::vector<std::string>& wanted, const std::vector<std::string>& known,
                const std::string& option, const std::string& noun) {
  for (const auto& name : wanted)
    if (!contains(known, name))
      fail(option, "there is no " + noun + " `" + name + "`", did_you_mean(name, known));
}

std::string environment(const char* name, std::string_view fallback) {
  const char* const value = std::getenv(name);
  return std::string(value && *value ? std::string_view(value) : fallback);
}

std::string errno_text() { return std::strerror(errno); }

std::string human_bytes(int64_t bytes) {
  constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  const double magnitude = std::abs(static_cast<double>(bytes));
  if (magnitude < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; std::abs(value) >= 1023.95 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_count(int64_t count) {
  constexpr std::array kUnits = {"k", "M", "G", "T", "P", "E"};
  if (std::abs(static_cast<double>(count)) < 1000) return fmt::format("{}", count);
  double value = static_cast<double>(count) / 1000;
  std::size_t unit = 0;
  for (; std::abs(value) >= 999.95 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string human_duration(double seconds) {
  if (!std::isfinite(seconds)) return fmt::format("{} s", seconds);
  if (seconds < 0) return "-" + human_duration(-seconds);
  if (seconds == 0) return "0 s";
  const auto scaled = [](double value, const char* unit) {
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, decimals, unit);
  };
  if (seconds < 999.5e-9) return fmt::format("{:.3g} ns", seconds * 1e9);
  if (seconds < 999.5e-6) return scaled(seconds * 1e6, "us");
  if (seconds < 999.5e-3) return scaled(seconds * 1e3, "ms");
  if (seconds < 119.95) return fmt::format("{:.1f} s", seconds);
  if (seconds > 1e15) return fmt::format("{:.3g} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  const int64_t minutes = (whole + 30) / 60;
  return fmt::format("{} h {:02} min", minutes / 60, minutes % 60);
}

}  // namespace fk
