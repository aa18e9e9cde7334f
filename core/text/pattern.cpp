// SPDX-License-Identifier: Apache-2.0

#include "core/text/pattern.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/text.hpp"

namespace fk::text {

Pattern::Pattern(const Config& part) {
  const Config pattern = part.child("pattern");
  if (pattern.has("Regex")) {
    regex_ = Regex(pattern.text("Regex"), pattern.where());
  } else {
    literal_ = pattern.text("String");
    if (literal_.empty()) pattern.fail_at("String", "expected at least one character");
  }
}

bool Pattern::find(std::string_view utf8, std::size_t from, Regex::Match& match) const {
  if (regex_) return regex_->find(utf8, from, match);
  const std::size_t begin = utf8.find(literal_, from);
  match = {begin, begin + literal_.size()};
  return begin != std::string_view::npos;
}

Behavior read_behavior(const Config& part) {
  static const std::vector<std::string> kNames = {"Removed", "Isolated", "MergedWithPrevious",
                                                  "MergedWithNext", "Contiguous"};
  const std::string name = part.text("behavior");
  const auto place = std::find(kNames.begin(), kNames.end(), name);
  if (place == kNames.end()) {
    part.fail_at("behavior", fmt::format("`{}` is not known", excerpt(name)),
                 did_you_mean(name, kNames));
  }
  return static_cast<Behavior>(place - kNames.begin());
}

void apply(Behavior behavior, std::vector<Range>& ranges) {
  if (behavior == Behavior::isolated) return;
  if (behavior == Behavior::removed) {
    std::erase_if(ranges, [](const Range& range) { return range.match; });
    return;
  }
  const bool backwards = behavior == Behavior::merged_with_next;
  if (backwards) std::reverse(ranges.begin(), ranges.end());
  std::vector<Range> kept;
  bool last = false;  // the range before is a match
  for (const Range& range : ranges) {
    const bool joined =
        behavior == Behavior::contiguous ? range.match == last : range.match && !last;
    last = range.match;
    if (!joined || kept.empty()) {
      kept.push_back(range);
    } else if (backwards) {
      kept.back().begin = range.begin;
    } else {
      kept.back().end = range.end;
    }
  }
  if (backwards) std::reverse(kept.begin(), kept.end());
  ranges = std::move(kept);
}

std::string replaced(const Pattern& pattern, std::string_view utf8, const std::string& content) {
  std::string result;
  cover(pattern, utf8, [&](const Range& range) {
    if (range.match) {
      result += content;
    } else {
      result += utf8.substr(range.begin, range.end - range.begin);
    }
  });
  return result;
}

}  // namespace fk::text
