// SPDX-License-Identifier: Apache-2.0
// Finds the fields of a contract by their names.
#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/contract/contract.hpp"

namespace fk {

std::vector<std::string> Slot::axis_names() const {
  return axis.empty() ? std::vector<std::string>{} : split(axis, ',');
}

const Slot* Contract::find(SectionId id, std::string_view field) const {
  for (const auto& slot : section(id))
    if (slot.name == field) return &slot;
  return nullptr;
}
const Slot* Contract::find(std::string_view field) const {
  for (const auto id : {SectionId::init, SectionId::weights, SectionId::forward}) {
    if (const Slot* slot = find(id, field)) return slot;
  }
  return nullptr;
}
const Slot& Contract::at(std::string_view field) const {
  if (const Slot* slot = find(field)) return *slot;
  fail(where, op + " has no field `" + std::string(field) + "`",
       did_you_mean(std::string(field), field_names()));
}
std::vector<std::string> Contract::field_names() const {
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i)
    for (const auto& slot : sections[static_cast<size_t>(i)]) names.push_back(slot.name);
  return names;
}
size_t Contract::count_axes(const Slot& output) const {
  const Slot& field = at(output.count);
  const bool one = std::all_of(field.shape.begin(), field.shape.end(),
                               [](const Expr& d) { return d == Expr(1); });
  return one ? 0 : field.shape.size();
}
const Slot* Contract::comm() const {
  for (const auto& slot : section(SectionId::init))
    if (slot.kind == SlotKind::comm) return &slot;
  return nullptr;
}

int Contract::required_slots(SectionId id) const {
  int n = 0;
  for (const auto& slot : section(id))
    if (slot.required()) n = slot.index + 1;
  return n;
}

}  // namespace fk
