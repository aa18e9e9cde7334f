// SPDX-License-Identifier: Apache-2.0
// Wrong from the second row on, where rows have gaps between them. One case cannot tell more: the
// verdict drops this explanation if other cases contradict it.
#include <fmt/format.h>

#include <algorithm>

#include "core/cases/patterns/pattern.hpp"

namespace fk {
namespace {

constexpr PatternKind kStridedKinds[] = {
    {"strided", surety::kShape, "rows of q have gaps, and row 0 alone is right"}};

// True if a first row of `width` elements is right, and nearly all other elements are wrong.
bool first_row_alone_is_right(const WrongAnswer& answer, int64_t width) {
  int64_t first = 0;
  for (int64_t i = 0; i < width; ++i) first += answer.wrong[static_cast<size_t>(i)];
  return first == 0 && answer.count * 10 >= (answer.size() - width) * 9;
}

// The same for a row of the first axis, or of a later one that the input has too: gaps may follow
// each of them. The last axis of an input is dense.
bool first_row_alone_is_right(const WrongAnswer& answer, const CaseField& field) {
  const auto letters = answer.letters();
  int64_t width = answer.size();
  for (size_t axis = 0; axis + 1 < std::min(letters.size(), field.slot->shape.size()); ++axis) {
    if (field.slot->shape[axis].text() != letters[axis]) return false;
    width /= answer.want.shape[axis];
    if (width * 2 <= answer.size() && first_row_alone_is_right(answer, width)) return true;
  }
  return false;
}

std::optional<Explanation> look_for_strides(const WrongAnswer& answer) {
  if (answer.size() == 0) return std::nullopt;
  for (const CaseField& field : answer.resolved.fields) {
    if (!field.present || !field.strided || !first_row_alone_is_right(answer, field)) continue;
    const std::string& name = field.slot->name;
    int64_t width = 1;
    for (size_t axis = 1; axis < field.shape.size(); ++axis) width *= field.shape[axis];
    const std::string apart =
        field.step > 0
            ? fmt::format("rows of {} are {} elements long and {} apart", name, width, field.step)
            : fmt::format("rows of {} have gaps", name);
    return Explanation{
        "strided",
        surety::kShape + 0.05,
        apart + ", and row 0 alone is right",
        fmt::format("Compute the addresses of {0} from {0}->strides. Only its last axis is dense.",
                    name),
        {{"row", static_cast<double>(width)}, {"step", static_cast<double>(field.step)}}};
  }
  return std::nullopt;
}

}  // namespace

FK_PATTERN(strided, kStridedKinds, look_for_strides);

}  // namespace fk
