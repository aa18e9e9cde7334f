// SPDX-License-Identifier: Apache-2.0
// Describes a call (call_text.hpp). The values of axes come from the constructor and from the
// shapes of tensors.
#include "core/exec/call_text.hpp"

#include <cstdio>
#include <map>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

std::string init_text(const Slot& slot, fk_slot value) {
  char text[32];
  switch (slot.kind) {
    case SlotKind::number:
      std::snprintf(text, sizeof text, "%.17g", value.f);
      return text;
    case SlotKind::boolean:
      return value.i ? "true" : "false";
    case SlotKind::choice:
      FK_CHECK(static_cast<size_t>(value.i) < slot.choices.size(), "a choice is one of its values");
      return slot.choices[static_cast<size_t>(value.i)];
    case SlotKind::dtype:
      return std::string(name(from_dlpack(
          {static_cast<uint8_t>(value.i & 0xFF), static_cast<uint8_t>(value.i >> 8 & 0xFF)})));
    case SlotKind::ints: {
      const auto* list = static_cast<const fk_ints*>(value.p);
      std::vector<std::string> parts;
      for (int64_t i = 0; list && i < list->n; ++i) parts.push_back(std::to_string(list->at[i]));
      return join(parts, ",");
    }
    default:
      return std::to_string(value.i);
  }
}

// Finds the values of the contract's axes. An axis of a list's tensors may have another value for
// each entry.
class AxisFinder {
 public:
  AxisFinder(const Contract& contract, const Frames& frames) : c_(contract), frames_(frames) {
    for (const auto& slot : c_.section(SectionId::init)) from_init(slot);
    for (const bool lists : {false, true}) {
      each_tensor([&](const Slot& slot, const auto& views) {
        if (slot.list.empty() != lists) from_tensor(slot, views);
      });
    }
    each_tensor([&](const Slot& slot, const auto& views) { solve(slot, views); });
  }

  void write(RecordedCall& out) const {
    for (const auto& [letter, meaning] : c_.axes) {
      if (by_init_.count(letter) || listed_.count(letter)) continue;
      const auto it = axes_.find(letter);
      out.axes[letter] = it == axes_.end() ? 0 : it->second;
    }
    out.listed = listed_;
  }

 private:
  template <class Body>
  void each_tensor(const Body& body) const {
    for (const auto id : {SectionId::weights, SectionId::forward})
      for (const auto& slot : c_.section(id))
        if (slot.is_tensor())
          body(slot, views_of(slot, id == SectionId::weights ? frames_.weights : frames_.forward));
  }
  bool known(const std::string& letter) const {
    return by_init_.count(letter) || axes_.count(letter) || listed_.count(letter);
  }

  // Axes that the constructor gives are known, and are not written again.
  void from_init(const Slot& slot) {
    const fk_slot value = frames_.init[static_cast<size_t>(slot.index)];
    if (slot.kind == SlotKind::comm) {
      if (value.p) axes_[slot.axis] = static_cast<const fk_comm*>(value.p)->size;
      return;
    }
    by_init_[slot.name] = slot.kind == SlotKind::integer ? value.i : 0;
    const auto names = slot.axis_names();
    const auto* list = slot.kind == SlotKind::ints ? static_cast<const fk_ints*>(value.p) : nullptr;
    for (size_t i = 0; i < names.size(); ++i)
      by_init_[names[i]] = !list ? value.i : static_cast<int64_t>(i) < list->n ? list->at[i] : 0;
  }
  void from_tensor(const Slot& slot, const std::vector<const fk_in*>& views) {
    if (!slot.list.empty() && !views.empty() && !by_init_.count(slot.list))
      axes_.try_emplace(slot.list, static_cast<int64_t>(views.size()));
    for (size_t entry = 0; entry < views.size(); ++entry) {
      for (size_t d = 0; d < slot.shape.size(); ++d) {
        if (!slot.shape[d].is_symbol()) continue;
        const std::string letter = slot.shape[d].text();
        if (by_init_.count(letter) || axes_.count(letter)) continue;
        if (slot.list.empty()) {
          axes_[letter] = views[entry]->shape[d];
        } else if (auto& values = listed_[letter]; values.size() == entry) {
          values.push_back(views[entry]->shape[d]);
        }
      }
    }
  }
  // Solves for an axis that never stands alone: B of [B+1].
  void solve(const Slot& slot, const std::vector<const fk_in*>& views) {
    if (!slot.list.empty() || views.empty()) return;
    for (size_t d = 0; d < slot.shape.size(); ++d) {
      std::string unknown;
      int count = 0;
      for (const auto& letter : slot.shape[d].symbols())
        if (!known(letter)) unknown = letter, ++count;
      if (count != 1) continue;
      Axes all = by_init_;
      all.insert(axes_.begin(), axes_.end());
      for (const auto& [letter, values] : listed_) all.try_emplace(letter, 0);
      const auto at = [&](int64_t value) {
        all[unknown] = value;
        return slot.shape[d].eval(all);
      };
      const int64_t zero = at(0), step = at(1) - zero, want = views[0]->shape[d];
      if (step == 0 || (want - zero) % step != 0) continue;
      if (const int64_t value = (want - zero) / step; value >= 0 && at(value) == want)
        axes_[unknown] = value;
    }
  }

  const Contract& c_;
  const Frames& frames_;
  Axes by_init_, axes_;
  std::map<std::string, std::vector<int64_t>> listed_;
};

}  // namespace

std::vector<const fk_in*> views_of(const Slot& slot, const std::vector<fk_slot>& frame) {
  const void* p = frame[static_cast<size_t>(slot.index)].p;
  if (!p) return {};
  if (slot.list.empty()) return {static_cast<const fk_in*>(p)};
  const auto* list = static_cast<const fk_in_list*>(p);
  return {list->at, list->at + list->n};
}

DType dtype_of(const fk_in& view) { return from_dlpack({view.dtype.code, view.dtype.bits}); }
Shape shape_of(const fk_in& view) { return {view.shape, view.shape + view.ndim}; }

bool is_dense(const fk_in& view) {
  int64_t step = 1;
  for (int32_t d = view.ndim; d-- > 0;) {
    if (view.shape[d] != 1 && view.strides[d] != step) return false;
    step *= view.shape[d];
  }
  return true;
}

RecordedCall recorded_call(const Contract& c, const Frames& frames) {
  RecordedCall out;
  out.op = c.op;
  out.revision = c.revision;
  for (const auto& slot : c.section(SectionId::init)) {
    if (slot.kind == SlotKind::comm) continue;
    out.init[slot.name] = init_text(slot, frames.init[static_cast<size_t>(slot.index)]);
  }
  for (const auto& slot : c.section(SectionId::forward))
    if (slot.kind == SlotKind::integer)
      out.scalars[slot.name] = frames.forward[static_cast<size_t>(slot.index)].i;
  AxisFinder(c, frames).write(out);
  for (const auto id : {SectionId::weights, SectionId::forward}) {
    for (const auto& slot : c.section(id)) {
      if (!slot.is_tensor()) continue;
      const auto views = views_of(slot, id == SectionId::weights ? frames.weights : frames.forward);
      if (views.empty()) continue;
      if (slot.optional) out.with.push_back(slot.name);
      if (slot.dtype_of.empty()) out.dtypes[slot.name] = name(dtype_of(*views[0]));
      if (slot.strided && !is_dense(*views[0])) out.strided.push_back(slot.name);
    }
  }
  return out;
}

}  // namespace fk
