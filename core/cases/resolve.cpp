// SPDX-License-Identifier: Apache-2.0
// Case + variant -> scalars, axes, dtypes and shapes.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/inputs.hpp"

namespace fk {

namespace {

class Resolver {
 public:
  Resolver(const Contract& c, const Case& source, const Variant& variant)
      : c_(c), source_(source), variant_(variant) {
    out_.contract = &c;
    out_.name = source.name;
    if (variant.axes.empty() && variant.listed.empty()) out_.contents = source.contents;
    out_.lists = std::make_shared<std::deque<std::pair<std::vector<int64_t>, fk_ints>>>();
  }

  ResolvedCase run() {
    for (const auto& slot : c_.section(SectionId::init)) out_.init.push_back(init_value(slot));
    for (const auto& [letter, value] : source_.axes) out_.axes[letter] = value;
    for (const auto& [letter, value] : variant_.axes) out_.axes[letter] = value;
    for (const auto& [letter, values] : source_.listed) list_axis(letter, values);
    for (const auto& [letter, values] : variant_.listed) list_axis(letter, values);
    for (const auto& slot : c_.section(SectionId::init))
      if (slot.kind == SlotKind::ints) check_ints(slot);
    for (const auto& slot : c_.section(SectionId::forward)) {
      fk_slot value{};
      if (!slot.is_tensor()) value = forward_scalar(slot);
      out_.scalars.push_back(value);
    }
    for (const auto id : {SectionId::weights, SectionId::forward}) {
      for (const auto& slot : c_.section(id))
        if (slot.is_tensor()) out_.fields.push_back(field(slot));
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void wrong(const std::string& what, const std::string& hint = "") const {
    fail(source_.where, c_.op + " case `" + source_.name + "`: " + what, hint);
  }

  int64_t integer(const Slot& slot, const std::string& text) const {
    char* end = nullptr;
    const long long value = std::strtoll(text.c_str(), &end, 0);
    if (text.empty() || *end) wrong("`" + slot.name + ": " + text + "` is not a whole number");
    return value;
  }

  fk_slot init_value(const Slot& slot) {
    const auto written = source_.init.find(slot.name);
    fk_slot value = slot.default_value;
    if (written != source_.init.end()) value = parse(slot, written->second);
    if (slot.kind == SlotKind::comm) return communicator(slot);
    if (slot.kind == SlotKind::integer || slot.kind == SlotKind::boolean) {
      out_.axes[slot.name] = value.i;
      if (!slot.axis.empty()) out_.axes[slot.axis] = value.i;
    } else if (slot.kind == SlotKind::ints && slot.list.empty()) {
      const auto names = slot.axis_names();
      const auto* list = static_cast<const fk_ints*>(value.p);
      if (!names.empty() && (!list || list->n != static_cast<int64_t>(names.size())))
        wrong("`" + slot.name + "` needs " + std::to_string(names.size()) + " values");
      for (size_t i = 0; i < names.size(); ++i) out_.axes[names[i]] = list->at[i];
    }
    return value;
  }

  // The case gives the number of ranks; without a communicator it is used for sizes only.
  fk_slot communicator(const Slot& slot) {
    fk_slot value{};
    value.p = variant_.comm;
    if (!variant_.comm) return value;
    const auto ranks = source_.axes.find(slot.axis);
    if (ranks != source_.axes.end() && ranks->second != variant_.comm->size)
      wrong("it has " + std::to_string(ranks->second) + " ranks, and here are " +
            std::to_string(variant_.comm->size));
    out_.rank = variant_.comm->rank;
    return value;
  }

  void list_axis(const std::string& letter, const std::vector<int64_t>& values) {
    out_.listed[letter] = values;
    out_.axes[letter] = std::accumulate(values.begin(), values.end(), int64_t{0});
  }

  // A list of integers must have as many entries as the list of tensors that it belongs to.
  void check_ints(const Slot& slot) {
    const auto* list = static_cast<const fk_ints*>(out_.init[static_cast<size_t>(slot.index)].p);
    if (slot.list.empty() || !list) return;
    const int64_t entries = Expr::parse(slot.list, c_.where).eval(out_.axes);
    if (entries != list->n)
      wrong("`" + slot.name + "` has " + std::to_string(list->n) + " values, " + slot.list +
            " is " + std::to_string(entries));
    if (!slot.axis.empty()) list_axis(slot.axis, {list->at, list->at + list->n});
  }

  fk_slot parse(const Slot& slot, const std::string& text) {
    fk_slot value{};
    char* end = nullptr;
    switch (slot.kind) {
      case SlotKind::number:
        value.f = std::strtod(text.c_str(), &end);
        if (text.empty() || *end) wrong("`" + slot.name + ": " + text + "` is not a number");
        break;
      case SlotKind::boolean:
        if (text != "true" && text != "false" && text != "0" && text != "1")
          wrong("`" + slot.name + ": " + text + "` is not true or false");
        value.i = text == "true" || text == "1";
        break;
      case SlotKind::choice: {
        const auto it = std::find(slot.choices.begin(), slot.choices.end(), text);
        if (it == slot.choices.end())
          wrong("`" + slot.name + "` cannot be `" + text + "`", did_you_mean(text, slot.choices));
        value.i = it - slot.choices.begin();
        break;
      }
      case SlotKind::dtype: {
        const auto type = to_dlpack(dtype_from_name(text, source_.where));
        value.i = type.code | type.bits << 8;
        break;
      }
      case SlotKind::ints: {
        auto& list = out_.lists->emplace_back();
        for (const auto& part : split(text, ','))
          if (!trim(part).empty()) list.first.push_back(integer(slot, std::string(trim(part))));
        list.second = {static_cast<int64_t>(list.first.size()), list.first.data()};
        value.p = &list.second;
        break;
      }
      default:
        value.i = integer(slot, text);
    }
    return value;
  }

  fk_slot forward_scalar(const Slot& slot) const {
    fk_slot value = slot.default_value;
    // A bound tighter than the contract's holds for the case's written sizes. A bound of one (token
    // of a request) holds for fewer requests too.
    const auto given = source_.scalars.find(slot.name);
    const bool its_sizes = variant_.axes.empty() && variant_.listed.empty();
    if (given != source_.scalars.end() && (its_sizes || (given->second <= 1 && is_smaller()))) {
      value.i = given->second;
      return value;
    }
    if (slot.expr.empty()) {
      if (!slot.has_default)
        wrong("the forward scalar `" + slot.name + "` has no `expr` in the contract");
      return value;
    }
    const int64_t computed = Expr::parse(slot.expr, c_.where).eval(out_.axes);
    if (slot.kind == SlotKind::number)
      value.f = static_cast<double>(computed);
    else
      value.i = computed;
    return value;
  }

  bool is_smaller() const {
    return std::ranges::all_of(variant_.axes, [this](const auto& axis) {
      const auto written = source_.axes.find(axis.first);
      return written != source_.axes.end() && axis.second <= written->second;
    });
  }

  bool present(const Slot& slot) const {
    if (!slot.optional) return true;
    const auto& with = variant_.with ? *variant_.with : source_.with;
    return std::any_of(with.begin(), with.end(), [&](const std::string& w) {
      return w == slot.name || (!slot.group.empty() && w == slot.group);
    });
  }

  DType dtype(const Slot& slot) const {
    for (const auto* given : {&variant_.dtypes, &source_.dtypes}) {
      const auto it = given->find(slot.name);
      if (it == given->end()) continue;
      const auto& allowed = slot.dtypes;
      if (slot.dtype_of.empty() &&
          std::find(allowed.begin(), allowed.end(), it->second) == allowed.end())
        wrong("`" + slot.name + "` cannot be " + std::string(name(it->second)));
      return it->second;
    }
    if (!slot.dtype_of.empty()) return dtype(c_.at(slot.dtype_of));
    if (slot.dtypes.empty()) wrong("`" + slot.name + "` has no dtype");
    return slot.dtypes.front();
  }

  CaseField field(const Slot& slot) const {
    CaseField f;
    f.slot = &slot;
    f.present = present(slot);
    f.dtype = dtype(slot);
    f.values = slot.values;
    if (const auto it = source_.values.find(slot.name); it != source_.values.end())
      f.values = it->second;
    const auto gaps = source_.strided.find(slot.name);
    const bool written = variant_.layout == Variant::Layout::written;
    f.strided = slot.strided && (!written || gaps != source_.strided.end());
    if (f.strided && written) f.step = gaps->second;
    // Full cases have the layout of production: rows of a wider tensor, dense within a row.
    const bool cut = f.strided && written && (f.step > 0 || source_.size == "full");
    f.dense_rows = cut || (f.strided && variant_.layout == Variant::Layout::padded_rows);
    if (!f.present) return f;
    bool differ = false;
    if (!slot.list.empty()) {
      f.entries = Expr::parse(slot.list, c_.where).eval(out_.axes);
      for (const auto& dim : slot.shape)
        for (const auto& letter : dim.symbols()) differ |= listed(slot, letter, f.entries);
    }
    for (int64_t entry = 0; entry < (differ ? f.entries : 1); ++entry) {
      Shape shape;
      const Axes axes = out_.axes_of(slot, entry);
      for (const auto& dim : slot.shape) shape.push_back(dim.eval(axes));
      for (const int64_t d : shape)
        if (d < 0) wrong("`" + slot.name + "` has the shape " + shape_text(shape));
      int64_t row = 1;
      for (size_t d = 1; d < shape.size(); ++d) row *= shape[d];
      // A few vectors of 16 bytes lie between rows, more of them for each further tensor.
      constexpr int64_t kVector = 16;
      const auto before = static_cast<int64_t>(out_.fields.size());
      if (cut && f.step == 0 && entry == 0 && shape.size() > 1)
        f.step = (row + kVector - 1) / kVector * kVector + kVector * (1 + before);
      if (f.step > 0 && f.step < row)
        wrong("`" + slot.name + "` has rows of " + std::to_string(row) +
              " elements, and its step in `strided` is " + std::to_string(f.step));
      if (entry == 0) f.shape = shape;
      if (differ) f.entry_shapes.push_back(std::move(shape));
    }
    return f;
  }

  // True if an axis of a list's tensors differs by entry.
  bool listed(const Slot& slot, const std::string& letter, int64_t entries) const {
    const auto it = out_.listed.find(letter);
    if (it == out_.listed.end()) return false;
    if (static_cast<int64_t>(it->second.size()) != entries)
      wrong("`" + letter + "` has " + std::to_string(it->second.size()) + " values, `" + slot.name +
            "` " + std::to_string(entries) + " entries");
    return true;
  }

  const Contract& c_;
  const Case& source_;
  const Variant& variant_;
  ResolvedCase out_;
};

}  // namespace

const CaseField* ResolvedCase::find(std::string_view field) const {
  for (const auto& f : fields)
    if (f.slot->name == field) return f.present ? &f : nullptr;
  return nullptr;
}

std::vector<const CaseField*> ResolvedCase::written() const {
  std::vector<const CaseField*> out;
  for (const auto& f : fields)
    if (f.present && f.slot->section == SectionId::forward && f.slot->role != Role::in)
      out.push_back(&f);
  return out;
}

Axes ResolvedCase::axes_of(const Slot& slot, int64_t entry) const {
  Axes out = axes;
  if (slot.list.empty()) return out;
  for (const auto& [letter, values] : listed)
    if (static_cast<size_t>(entry) < values.size())
      out[letter] = values[static_cast<size_t>(entry)];
  return out;
}

ResolvedCase resolve(const Contract& contract, const Case& source, const Variant& variant) {
  return Resolver(contract, source, variant).run();
}

}  // namespace fk
