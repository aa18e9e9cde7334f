// SPDX-License-Identifier: Apache-2.0
// The wrong elements hold values of an input: the output's own earlier content, or a copy.
#include <fmt/format.h>

#include "core/cases/patterns/pattern.hpp"

namespace fk {
namespace {

constexpr PatternKind kKnownValueKinds[] = {
    {"holds_its_input", surety::kExact, "residual still holds its input"},
    {"copy_of_input", surety::kExact, "out is a copy of x"}};

// Fewer equal elements may be equal by chance.
constexpr int64_t kFewestKnown = 4;

// True if nearly all wrong elements have these values.
bool wrong_elements_hold(const WrongAnswer& answer, const std::vector<double>& values) {
  if (values.size() != answer.got_values.size() || answer.count < kFewestKnown) return false;
  int64_t other = 0;
  for (size_t i = 0; i < values.size(); ++i)
    other += answer.wrong[i] && answer.got_values[i] != values[i];
  return other * 100 <= answer.count;
}

// "row 4 of 5" or "rows from 4 on of 9", along the first axis; empty: all, or no short description.
std::string rows_that_hold(const WrongAnswer& answer) {
  const auto indices = wrong_indices(answer);
  if (indices.size() < 2) return "";
  const int64_t rows = answer.want.shape[0];
  if (static_cast<int64_t>(indices[0].size()) == rows) return "";
  const std::string text = indices_text(indices[0], rows);
  return text.empty()
             ? ""
             : fmt::format("row{} {} of {}", indices[0].size() == 1 ? "" : "s", text, rows);
}

std::optional<Explanation> look_for_known_values(const WrongAnswer& answer) {
  const std::string& name = answer.field.slot->name;
  const auto elements = static_cast<double>(answer.count);
  if (wrong_elements_hold(answer, answer.before_values)) {
    const std::string kept = rows_that_hold(answer);
    return Explanation{
        "holds_its_input",
        surety::kExact,
        name + " still holds its input" + (kept.empty() ? "" : " in " + kept),
        kept.empty()
            ? "Write the new values into " + name + ": it is an input and an output of the call."
            : "These rows were not computed. Check the loop over rows, and the tail that fills no "
              "vector, tile or block.",
        {{"elements", elements}}};
  }
  if (!answer.whole || !is_float(answer.field.dtype)) return std::nullopt;
  for (const CaseField& from : answer.resolved.fields) {
    const auto its = answer.inputs.find(from.slot->name);
    if (!from.present || its == answer.inputs.end() || its->second.size() != 1 ||
        !is_float(from.dtype) || its->second[0].numel() != answer.size())
      continue;
    if (wrong_elements_hold(answer, its->second[0].to(answer.field.dtype).values()))
      return Explanation{"copy_of_input",
                         surety::kExact,
                         fmt::format("{} is a copy of {}{}", name, from.slot->name,
                                     answer.count == answer.size() ? "" : " where it is wrong"),
                         "Store the result in place of the loaded value.",
                         {{"elements", elements}}};
  }
  return std::nullopt;
}

}  // namespace

FK_PATTERN(known_values, kKnownValueKinds, look_for_known_values);

}  // namespace fk
