// SPDX-License-Identifier: Apache-2.0
// A constructor value that is not read, or read wrongly: the answer is right for another value.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/cases/patterns/pattern.hpp"

namespace fk {
namespace {

constexpr PatternKind kAttributeKinds[] = {
    {"attribute_without_effect", surety::kAsked,
     "eps has no effect: the values are right for eps = 0"},
    {"attribute_off_by_one", surety::kAsked,
     "window is off by one: the values are right for window = 4, and this case has 3"},
    {"attribute_other_value", surety::kAsked,
     "causal is not read: the values are right for causal = true, and this case has false"}};

constexpr double kLeastScale = 1e-2;  // smaller numbers are epsilons

enum class As { nothing, off_by_one, other };

struct OtherValue {
  As as;
  double value;
  std::string text;       // as a case writes it
  std::string told = {};  // for people; empty: as `text`
  const std::string& words() const { return told.empty() ? text : told; }
};

std::string value_text(const Slot& slot, double value) {
  if (slot.kind == SlotKind::boolean) return value != 0 ? "true" : "false";
  if (slot.kind == SlotKind::choice) return slot.choices.at(static_cast<size_t>(value));
  return slot.kind == SlotKind::integer ? std::to_string(static_cast<int64_t>(value))
                                        : figure_text(value);
}

double value_of(const Slot& slot, const fk_slot& value) {
  return slot.kind == SlotKind::number ? value.f : static_cast<double>(value.i);
}

// Values that mistakes lead to, the likeliest first. Sizes are no such values: the case has them.
std::vector<OtherValue> other_values(const Slot& slot, double own) {
  std::vector<OtherValue> out;
  const auto add = [&](As as, double value) {
    const bool known = std::any_of(out.begin(), out.end(),
                                   [&](const OtherValue& other) { return other.value == value; });
    if (known || value == own || (slot.min && value < *slot.min) || (slot.max && value > *slot.max))
      return;
    out.push_back({as, value, value_text(slot, value)});
  };
  if (slot.kind == SlotKind::boolean) {
    add(As::other, own == 0);
  } else if (slot.kind == SlotKind::choice) {
    for (size_t i = 0; i < slot.choices.size(); ++i) add(As::other, static_cast<double>(i));
  } else if (slot.kind == SlotKind::number) {
    add(As::nothing, 0);
    add(As::nothing, 1);
    if (slot.has_default) add(As::other, slot.default_value.f);
    if (own < kLeastScale)  // epsilons that are usual
      for (const double usual : {1e-5, 1e-6}) add(As::other, usual);
  } else if (slot.kind == SlotKind::integer && slot.axis.empty() && own != 0) {
    // 0 means `none` where it is allowed, so it is no neighbour of 1.
    if (own != -1) add(As::off_by_one, own + 1);
    if (own > 1) add(As::off_by_one, own - 1);
    add(As::nothing, 0);
    if (slot.has_default) add(As::other, value_of(slot, slot.default_value));
  }
  return out;
}

// A scale that is computed in place of read: 1 / sqrt(n) for a size n of init.
void add_scales(const ResolvedCase& resolved, std::vector<OtherValue>& out) {
  for (const Slot& slot : resolved.contract->section(SectionId::init)) {
    if (slot.axis.empty() || slot.kind != SlotKind::integer) continue;
    const auto n = static_cast<double>(resolved.init.at(static_cast<size_t>(slot.index)).i);
    if (n < 2) continue;
    const double value = 1 / std::sqrt(n);
    out.push_back({As::other, value, fmt::format("{:.17g}", value), "1 / sqrt(" + slot.name + ")"});
  }
}

Explanation attribute_found(const Slot& slot, double own, const OtherValue& other) {
  const std::string &name = slot.name, is = value_text(slot, own);
  Explanation out;
  out.surety = surety::kAsked;
  out.figures = {{name, own}, {"right_for", other.value}};
  if (other.as == As::nothing) {
    out.name = "attribute_without_effect";
    out.text = fmt::format("{} has no effect: the values are right for {} = {}", name, name,
                           other.words());
    out.next = fmt::format(
        "Use {} in the formula: its place is in the contract (`fk-host show OP`).", name);
    return out;
  }
  out.name = other.as == As::off_by_one ? "attribute_off_by_one" : "attribute_other_value";
  out.text =
      fmt::format("{} is {}: the values are right for {} = {}, and this case has {}", name,
                  other.as == As::off_by_one ? "off by one" : "not read", name, other.words(), is);
  out.next = other.as == As::off_by_one
                 ? fmt::format(
                       "Check the bound that {} gives: < or <=, and whether the element "
                       "itself counts.",
                       name)
                 : fmt::format("Read {} from init in place of a constant.", name);
  return out;
}

std::optional<Explanation> ask_for_attributes(const WrongAnswer& answer) {
  for (const Slot& slot : answer.resolved.contract->section(SectionId::init)) {
    if (slot.kind == SlotKind::comm || !slot.axis.empty()) continue;
    const double own = value_of(slot, answer.resolved.init.at(static_cast<size_t>(slot.index)));
    std::vector<OtherValue> others = other_values(slot, own);
    if (slot.kind == SlotKind::number && own >= kLeastScale) add_scales(answer.resolved, others);
    for (const OtherValue& other : others) {
      CallChange change;
      change.init[slot.name] = other.text;
      if (answer.right_if(change, answer.inputs)) return attribute_found(slot, own, other);
    }
  }
  return std::nullopt;
}

}  // namespace

FK_PATTERN(attribute, kAttributeKinds, ask_for_attributes, true);

}  // namespace fk
