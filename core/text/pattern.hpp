// SPDX-License-Identifier: Apache-2.0
//
// A pattern of a tokenizer.json, {"String": ...} or {"Regex": ...}, and how a text is cut at it.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.hpp"
#include "core/text/regex.hpp"

namespace fk::text {

class Pattern {
 public:
  /// Reads `pattern` of a part of a tokenizer.json.
  explicit Pattern(const Config& part);
  explicit Pattern(Regex regex) : regex_(std::move(regex)) {}

  /// The first match at byte `from` or later. It may be empty.
  bool find(std::string_view utf8, std::size_t from, Regex::Match& match) const;

 private:
  std::optional<Regex> regex_;
  std::string literal_;
};

/// A part of a text.
struct Range {
  std::size_t begin = 0, end = 0;
  bool match = false;
};

/// The whole text as matches and the parts between them. Calls next(Range) in order.
template <class Next>
void cover(const Pattern& pattern, std::string_view utf8, const Next& next);

/// Fate of the matches of a pattern which cuts a text.
enum class Behavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Reads `behavior`. Error for an unknown one.
Behavior read_behavior(const Config& part);

/// Makes the parts of a split from parts of `cover`, in place.
void apply(Behavior behavior, std::vector<Range>& ranges);

/// The text with each match replaced.
std::string replaced(const Pattern& pattern, std::string_view utf8, const std::string& content);

template <class Next>
void cover(const Pattern& pattern, std::string_view utf8, const Next& next) {
  std::size_t done = 0, from = 0;
  bool matched = false;
  for (Regex::Match match; from <= utf8.size() && pattern.find(utf8, from, match);) {
    // An empty match right after a match is none.
    if (match.begin == match.end && matched && match.begin == done) {
      if (from >= utf8.size()) break;
      from = match.end + 1;
      while (from < utf8.size() && (static_cast<unsigned char>(utf8[from]) & 0xC0) == 0x80) ++from;
      continue;
    }
    if (done < match.begin) next(Range{done, match.begin, false});
    next(Range{match.begin, match.end, true});
    done = from = match.end;
    matched = true;
  }
  if (done < utf8.size()) next(Range{done, utf8.size(), false});
}

}  // namespace fk::text
