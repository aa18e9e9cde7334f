// SPDX-License-Identifier: Apache-2.0
// Wrong indices along named axes: heads, requests, experts; and heads that read another group.
#include <fmt/format.h>

#include <algorithm>

#include "core/cases/patterns/pattern.hpp"

namespace fk {
namespace {

constexpr PatternKind kAxisKinds[] = {
    {"axis", surety::kKind, "heads 1 and 2 of 4 are wrong"},
    {"head_group", surety::kShape, "heads 1 and 2 of 4 are wrong"}};

// "heads 1 and 2 of 4 are wrong", "query token 3 of 9 is wrong".
std::string axis_text(std::string meaning, const std::vector<int64_t>& indices, int64_t size) {
  const bool one = indices.size() == 1;
  if (one && meaning.ends_with('s')) meaning.pop_back();
  return fmt::format("{} {} of {}", meaning, indices_text(indices, size), size);
}

// How a head chooses its group where the rule `head / (heads / groups)` was not followed.
struct GroupMistake {
  const char* what;
  int64_t (*group)(int64_t head, int64_t groups, int64_t each);
};
constexpr GroupMistake kGroupMistakes[] = {
    {"h % {}", [](int64_t head, int64_t groups, int64_t) { return head % groups; }},
    {"0", [](int64_t, int64_t, int64_t) { return int64_t{0}; }},
    {"h", [](int64_t head, int64_t, int64_t) { return head; }}};

// True for an input with the axes `group`, `next` in place of the output's `head`, `next`.
bool is_grouped(const CaseField& field, const std::string& group, const std::string& next) {
  if (!field.present || !field.slot->is_read()) return false;
  const auto& shape = field.slot->shape;
  for (size_t i = 0; i + 1 < shape.size(); ++i)
    if (shape[i].text() == group && shape[i + 1].text() == next) return true;
  return false;
}

// Another axis of the inputs that divides this one, as key/value heads divide heads. The wrong
// indices must be those which a mistake in the rule moves to another group. `next`: the output's
// axis behind this one.
std::optional<Explanation> group_of(const WrongAnswer& answer, const std::string& letter,
                                    const std::string& next, const std::vector<int64_t>& wrong,
                                    int64_t size) {
  const Contract& contract = *answer.resolved.contract;
  for (const auto& [other, meaning] : contract.axes) {
    const auto found = answer.resolved.axes.find(other);
    if (other == letter || found == answer.resolved.axes.end()) continue;
    const int64_t groups = found->second;
    if (groups < 2 || groups >= size || size % groups != 0) continue;
    const auto& fields = answer.resolved.fields;
    if (std::none_of(fields.begin(), fields.end(), [&, group = other](const CaseField& field) {
          return is_grouped(field, group, next);
        }))
      continue;
    const int64_t each = size / groups;
    for (const GroupMistake& mistake : kGroupMistakes) {
      std::vector<int64_t> moved;
      for (int64_t head = 0; head < size; ++head)
        if (mistake.group(head, groups, each) != head / each) moved.push_back(head);
      if (moved != wrong) continue;
      const std::string own = meaning_of_axis(contract, letter);
      return Explanation{
          "head_group",
          surety::kShape,
          axis_text(own, wrong, size) + (wrong.size() == 1 ? " is wrong" : " are wrong"),
          fmt::format(
              "Index h of the {} reads index h / {} of the {}. The wrong ones are those for "
              "which {} is another index.",
              own, each, meaning, fmt::format(fmt::runtime(mistake.what), groups)),
          {{letter, static_cast<double>(size)}, {other, static_cast<double>(groups)}}};
    }
  }
  return std::nullopt;
}

// True if the indices fill their box, apart from a few elements that are right by accident.
bool fills_box(const WrongAnswer& answer, const std::vector<std::vector<int64_t>>& indices) {
  double box = 1;
  for (const auto& its : indices) box *= static_cast<double>(its.size());
  return static_cast<double>(answer.count) >= 0.75 * box;
}

std::optional<Explanation> look_for_axes(const WrongAnswer& answer) {
  const auto letters = answer.letters();
  if (letters.size() < 2 || answer.count == 0) return std::nullopt;
  const auto indices = wrong_indices(answer);
  if (!fills_box(answer, indices)) return std::nullopt;
  std::string text;
  bool several = false, tail = true;
  for (size_t axis = 0; axis < letters.size(); ++axis) {
    const int64_t size = answer.want.shape[axis];
    if (static_cast<int64_t>(indices[axis].size()) == size) continue;
    if (axis + 1 < letters.size())
      if (auto group = group_of(answer, letters[axis], letters[axis + 1], indices[axis], size))
        return group;
    const std::string meaning = meaning_of_axis(*answer.resolved.contract, letters[axis]);
    if (meaning.empty() || indices_text(indices[axis], size).empty()) return std::nullopt;
    several |= !text.empty() || indices[axis].size() > 1;
    text += (text.empty() ? "" : ", ") + axis_text(meaning, indices[axis], size);
    const auto count = static_cast<int64_t>(indices[axis].size());
    tail &= indices[axis].front() == size - count && count * 2 <= size;
  }
  // Rows and columns say the same of a matrix.
  if (text.empty() || letters.size() < 3) return std::nullopt;
  return Explanation{tail ? "tail" : "axis", surety::kKind + 0.05,
                     text + (several ? " are wrong" : " is wrong"),
                     tail ? "Only the end is wrong. Check the tail that fills no vector, tile or "
                            "block."
                          : "Check conditions and strides of this index, and the part of the work "
                            "that computes it."};
}

}  // namespace

FK_PATTERN(axis, kAxisKinds, look_for_axes);

}  // namespace fk
