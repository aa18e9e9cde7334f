// SPDX-License-Identifier: Apache-2.0
// Indices of values that are equal to the right ones.
#include <algorithm>

#include "core/cases/patterns/pattern.hpp"

namespace fk {
namespace {

constexpr PatternKind kTieKinds[] = {
    {"tie", surety::kExact, "another of equal values of logits than the lowest index"}};

// True if each wrongly chosen index has the same value as the right one.
bool is_tied(const WrongAnswer& answer, const Tensor& values, int64_t rows, int64_t columns) {
  const int64_t width = answer.size() / rows;
  for (int64_t i = 0; i < answer.size(); ++i) {
    const double mine = answer.got_values[static_cast<size_t>(i)],
                 right = answer.want_values[static_cast<size_t>(i)];
    if (mine == right) continue;
    if (std::min(mine, right) < 0 || std::max(mine, right) >= static_cast<double>(columns))
      return false;
    const int64_t row = i / width * columns;
    if (values.at(row + static_cast<int64_t>(mine)) != values.at(row + static_cast<int64_t>(right)))
      return false;
  }
  return true;
}

std::optional<Explanation> look_for_ties(const WrongAnswer& answer) {
  const CaseField& field = answer.field;
  if (is_float(field.dtype) || !answer.whole || field.shape.empty() || field.entries != 1)
    return std::nullopt;
  const int64_t rows = field.shape[0];
  if (rows == 0 || answer.size() % rows != 0) return std::nullopt;
  for (const CaseField& f : answer.resolved.fields) {
    if (!f.present || f.slot->section != SectionId::forward || f.slot->role != Role::in ||
        !is_float(f.dtype) || f.entries != 1 || f.shape.size() != 2 || f.shape[0] != rows)
      continue;
    if (is_tied(answer, answer.inputs.at(f.slot->name)[0], rows, f.shape[1]))
      return Explanation{
          "tie", surety::kExact,
          "another of equal values of " + f.slot->name + " than the lowest index",
          "Ties go to the lowest index. Keep the first of equal values (> in place of >=), and "
          "compare indices when you merge parts of a row."};
  }
  return std::nullopt;
}

}  // namespace

FK_PATTERN(ties, kTieKinds, look_for_ties);

}  // namespace fk
