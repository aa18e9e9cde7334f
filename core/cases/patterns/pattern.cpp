// SPDX-License-Identifier: Apache-2.0
#include "core/cases/patterns/pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/text.hpp"

namespace fk {

namespace {

struct PatternFamily {
  std::span<const PatternKind> kinds;
  PatternLook look;
  bool asks;
};

std::vector<PatternFamily>& pattern_families() {
  static std::vector<PatternFamily> list;
  return list;
}

std::string ordinal_text(int64_t n) {
  const bool teen = n % 100 >= 11 && n % 100 <= 13;
  const char* const endings[] = {"th", "st", "nd", "rd"};
  return std::to_string(n) + endings[teen || n % 10 > 3 ? 0 : n % 10];
}

}  // namespace

PatternRegistration::PatternRegistration(std::span<const PatternKind> kinds, PatternLook look,
                                         bool asks) {
  pattern_families().push_back({kinds, look, asks});
}

std::vector<PatternKind> pattern_kinds() {
  std::vector<PatternKind> out;
  for (const PatternFamily& family : pattern_families())
    out.insert(out.end(), family.kinds.begin(), family.kinds.end());
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return std::string_view(a.name) < b.name; });
  return out;
}

std::optional<Explanation> explain(const WrongAnswer& answer, const std::string& found) {
  double surest = -1;
  for (const PatternKind& kind : pattern_kinds())
    if (kind.name == found) surest = kind.surety;
  std::optional<Explanation> out;
  for (const bool asks : {false, true})
    for (const PatternFamily& family : pattern_families()) {
      if (!family.look || family.asks != asks) continue;
      // No other call leaves elements unwritten.
      if (asks && (surest >= surety::kExact || found == "unwritten")) continue;
      auto next = family.look(answer);
      if (!next || next->surety <= surest) continue;
      surest = next->surety;
      out = std::move(next);
    }
  return out;
}

bool WrongAnswer::all_finite() const {
  const auto finite = [](double v) { return std::isfinite(v); };
  return std::all_of(got_values.begin(), got_values.end(), finite) &&
         std::all_of(want_values.begin(), want_values.end(), finite);
}

std::vector<std::string> WrongAnswer::letters() const {
  std::vector<std::string> out;
  if (!whole || field.slot->shape.size() != want.shape.size()) return out;
  for (const Expr& axis : field.slot->shape) out.push_back(axis.text());
  return out;
}

std::string meaning_of_axis(const Contract& contract, const std::string& letter) {
  for (const auto& [name, meaning] : contract.axes)
    if (name == letter) return meaning;
  return "";
}

std::vector<std::vector<int64_t>> wrong_indices(const WrongAnswer& answer) {
  const Shape& shape = answer.want.shape;
  if (answer.letters().empty()) return {};
  std::vector<std::vector<uint8_t>> seen;
  for (const int64_t size : shape) seen.emplace_back(static_cast<size_t>(size), 0);
  for (int64_t i = 0; i < answer.size(); ++i) {
    if (!answer.wrong[static_cast<size_t>(i)]) continue;
    int64_t rest = i;
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
      seen[axis][static_cast<size_t>(rest % shape[axis])] = 1;
  }
  std::vector<std::vector<int64_t>> out(shape.size());
  for (size_t axis = 0; axis < shape.size(); ++axis)
    for (size_t i = 0; i < seen[axis].size(); ++i)
      if (seen[axis][i]) out[axis].push_back(static_cast<int64_t>(i));
  return out;
}

std::vector<WrongAxis> wrong_axes(const WrongAnswer& answer) {
  std::vector<WrongAxis> out;
  const auto letters = answer.letters();
  const auto indices = wrong_indices(answer);
  for (size_t axis = 0; axis < letters.size(); ++axis) {
    const int64_t size = answer.want.shape[axis];
    const auto wrong = static_cast<int64_t>(indices[axis].size());
    std::string text = wrong == size ? "all" : indices_text(indices[axis], size);
    if (text.empty()) text = "scattered";
    out.push_back({letters[axis], meaning_of_axis(*answer.resolved.contract, letters[axis]), size,
                   wrong, wrong ? std::move(text) : "none"});
  }
  return out;
}

std::string indices_text(const std::vector<int64_t>& indices, int64_t size) {
  constexpr size_t kListed = 4;
  const auto count = static_cast<int64_t>(indices.size());
  if (count == 0) return "";
  const int64_t first = indices.front(), last = indices.back();
  if (count > 2 && last - first + 1 == count)
    return last == size - 1 ? fmt::format("from {} on", first)
                            : fmt::format("{} to {}", first, last);
  if (indices.size() <= kListed) {
    std::string text;
    for (size_t i = 0; i < indices.size(); ++i)
      text += (i == 0 ? "" : i + 1 == indices.size() ? " and " : ", ") + std::to_string(indices[i]);
    return text;
  }
  const int64_t step = indices[1] - first;
  for (size_t i = 1; i < indices.size(); ++i)
    if (indices[i] - indices[i - 1] != step) return "";
  return fmt::format("every {} from {}", ordinal_text(step), first);
}

std::string figure_text(double value) { return fmt::format("{:.6g}", value); }

}  // namespace fk
