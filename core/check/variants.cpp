// SPDX-License-Identifier: Apache-2.0
// The variants of a case to check: dtypes, layouts, optional fields, and shapes down to zero rows.
#include <algorithm>
#include <set>

#include "core/check/check.hpp"

namespace fk {

namespace {

// Axes that count rows of work. The others (pages, channels, widths) keep their size.
constexpr const char* kRowAxes[] = {"T", "B", "S", "A", "J", "M", "Q", "Y"};

bool is_prime(int64_t n) {
  for (int64_t d = 2; d * d <= n; ++d)
    if (n % d == 0) return false;
  return n > 1;
}

int64_t odd_below(int64_t n) {
  for (int64_t p = n - 1; p > 1; --p)
    if (is_prime(p) && p % 2) return p;
  return std::min<int64_t>(n, 1);
}

void add_optionals(const Contract& c, const Case& source, std::vector<Variant>& out) {
  std::vector<std::string> units;
  for (const auto id : {SectionId::weights, SectionId::forward}) {
    for (const auto& slot : c.section(id)) {
      if (!slot.is_tensor() || !slot.optional) continue;
      const std::string unit = slot.group.empty() ? slot.name : slot.group;
      if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
    }
  }
  if (units.empty()) return;
  std::set<std::string> as_written;
  for (const auto& w : source.with) {
    const Slot* slot = c.find(w);
    as_written.insert(slot && !slot->group.empty() ? slot->group : w);
  }
  std::vector<std::pair<std::string, std::set<std::string>>> sets = {{"no optional field", {}}};
  if (units.size() > 1)
    for (const auto& unit : units) sets.push_back({"only " + unit, {unit}});
  sets.push_back({"all optional fields", {units.begin(), units.end()}});
  for (const auto& [label, set] : sets) {
    if (set == as_written) continue;
    Variant v;
    v.name = label;
    v.with.emplace(set.begin(), set.end());
    out.push_back(v);
  }
}

}  // namespace

void shrink_rows(const Case& source, const std::function<int64_t(int64_t)>& shrink,
                 Variant& variant) {
  std::vector<std::pair<int64_t, std::string>> rows;
  for (const char* axis : kRowAxes)
    if (const auto it = source.axes.find(axis); it != source.axes.end())
      rows.emplace_back(it->second, axis);
  std::sort(rows.begin(), rows.end());
  auto& out = variant.axes;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& [value, axis] = rows[i];
    int64_t now = shrink(value);
    for (size_t j = 0; j < i; ++j) {
      const int64_t smaller = rows[j].first;
      if (smaller > 1 && value % smaller == 0) now = out[rows[j].second] * (value / smaller);
    }
    out[axis] = now;
  }
  for (const char* axis : kRowAxes) {
    const auto it = source.listed.find(axis);
    if (it == source.listed.end()) continue;
    for (const int64_t value : it->second) variant.listed[axis].push_back(shrink(value));
  }
}

std::vector<Variant> dtype_variants(const Contract& c, const Case& source) {
  std::vector<Variant> out;
  const ResolvedCase written = resolve(c, source, {});
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    Variant v;
    v.name = name(type);
    bool differs = false;
    for (const auto& f : written.fields) {
      if (!f.slot->dtype_of.empty() || !is_float(f.dtype)) continue;
      const auto& allowed = f.slot->dtypes;
      if (allowed.size() < 2 || std::find(allowed.begin(), allowed.end(), type) == allowed.end())
        continue;
      v.dtypes[f.slot->name] = type;
      differs |= f.present && f.dtype != type;
    }
    if (differs) out.push_back(v);
    // An output in another dtype: float32 from half inputs.
    if (type != DType::bf16 || !differs) continue;
    for (const auto& f : written.fields) {
      if (f.slot->section != SectionId::forward || f.slot->role != Role::out) continue;
      if (!v.dtypes.count(f.slot->name)) continue;
      Variant mixed = v;
      mixed.name = "bf16, " + f.slot->name + " f32";
      mixed.dtypes[f.slot->name] = DType::f32;
      out.push_back(mixed);
    }
  }
  return out;
}

std::vector<Variant> variants_of(const Contract& c, const Case& source, bool quick) {
  std::vector<Variant> out(1);
  if (quick) return out;
  if (source.size != "full")
    for (Variant& v : dtype_variants(c, source)) out.push_back(std::move(v));
  if (source.size == kRangeSize) return out;
  bool strided = false, deep = false, pair = false;
  for (const auto& slot : c.section(SectionId::forward)) {
    strided |= slot.strided;
    deep |= slot.strided && slot.shape.size() > 2;
    pair |= slot.strided && slot.name == "v_cache";
  }
  if (strided) {
    out.push_back({});
    out.back().name = "padded rows";
    out.back().layout = Variant::Layout::padded;
  }
  if (deep) {
    out.push_back({});
    out.back().name = "padded rows, dense heads";
    out.back().layout = Variant::Layout::padded_rows;
  }
  if (pair) {
    out.push_back({});
    out.back().name = "interleaved caches";
    out.back().layout = Variant::Layout::interleaved;
  }
  const Case* first = nullptr;
  for (const auto& other : c.cases)
    if (!first && other.size == source.size) first = &other;
  if (first && first->name == source.name && source.size != "full") add_optionals(c, source, out);
  const auto add_shape = [&](const char* label, const auto& shrink) {
    Variant v;
    v.name = label;
    shrink_rows(source, shrink, v);
    bool differs = false;
    for (const auto& [axis, values] : v.listed) differs |= source.listed.at(axis) != values;
    for (const auto& [axis, value] : v.axes) differs |= source.axes.at(axis) != value;
    if (differs) out.push_back(v);
  };
  if (source.size != "full") {
    add_shape("odd shape", odd_below);
    add_shape("one row", [](int64_t n) { return std::min<int64_t>(n, 1); });
    add_shape("no rows", [](int64_t) { return int64_t{0}; });
  }
  return out;
}

}  // namespace fk
