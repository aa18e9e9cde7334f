// SPDX-License-Identifier: Apache-2.0
#include "core/cases/slice.hpp"

#include <algorithm>
#include <utility>

#include "core/cases/strides.hpp"

namespace fk {

namespace {

// Whether a field has numbers of rows along one of these axes: the smaller case lacks most of them.
bool names_rows(const ResolvedCase& r, const std::map<std::string, int64_t>& axes) {
  return std::ranges::any_of(axes, [&](const auto& axis) {
    return std::ranges::any_of(r.fields, [&](const CaseField& f) {
      return f.present && f.values == "randint(0," + axis.first + ")";
    });
  });
}

// The axes of the smaller case; empty when there is none.
std::map<std::string, int64_t> smaller_axes(const ResolvedCase& r, const CaseValues& values,
                                            int64_t keep) {
  std::map<std::string, int64_t> axes;
  for (const auto& f : r.fields) {
    // Skips lists whose entries have starts of their own, because the first requests keep their
    // positions in them.
    if (!f.present || !f.slot->list.empty() || !f.values.starts_with("cu(")) continue;
    const auto requests = f.slot->shape[0].symbols();
    const std::string tokens = f.values.substr(3, f.values.rfind(')') - 3);
    if (requests.size() != 1 || !r.axes.count(tokens) || keep >= f.shape[0] - 1) return {};
    axes[*requests.begin()] = keep;
    axes[tokens] = static_cast<int64_t>(values.at(f.slot->name)[0].at(keep));
  }
  if (!axes.empty()) return axes;
  for (const char* axis : {"T", "M", "B"}) {
    const auto it = r.axes.find(axis);
    if (it != r.axes.end() && it->second > keep) return {{axis, keep}};
  }
  return {};
}

}  // namespace

std::optional<Slice> first_rows(const ResolvedCase& r, const Case& source, const Variant& variant,
                                const CaseValues& values, int64_t keep) {
  for (const auto& f : r.fields)
    if (f.present && (f.values.starts_with("moe_") || f.values.starts_with("routed_")))
      return std::nullopt;
  // Rows which share a scale depend on each other.
  for (const auto& [name, code] : r.contract->tolerance.codes)
    if (code.rows.eval(r.axes) > 1) return std::nullopt;
  Variant small = variant;
  const auto axes = smaller_axes(r, values, keep);
  if (axes.empty() || names_rows(r, axes)) return std::nullopt;
  for (const auto& [axis, value] : axes) small.axes[axis] = value;
  Slice out{resolve(*r.contract, source, small), small, {}, {}};
  out.resolved.scalars = r.scalars;  // bounds are unchanged
  for (size_t i = 0; i < r.fields.size(); ++i) {
    const CaseField &whole = r.fields[i], &part = out.resolved.fields[i];
    if (!part.present) continue;
    if (part.shape.empty() != whole.shape.empty() || part.entries != whole.entries)
      return std::nullopt;
    for (int64_t entry = 0; entry < part.entries; ++entry) {
      const Shape &a = part.shape_of(entry), &b = whole.shape_of(entry);
      for (size_t d = 0; d < a.size(); ++d)
        if (a[d] > b[d] || (d > 0 && a[d] != b[d])) return std::nullopt;
    }
    const bool fewer = !part.shape.empty() && part.shape[0] < whole.shape[0];
    const bool written = part.slot->section == SectionId::forward && part.slot->role != Role::in;
    if (written && fewer && is_float(part.dtype) && numel(part.shape) > 0)
      out.outputs.push_back(part.slot->name);
    const auto it = values.find(part.slot->name);
    if (it == values.end()) continue;
    for (const Tensor& t : it->second) {
      auto& made = out.values[part.slot->name];
      Shape shape = contents_shape(part, static_cast<int64_t>(made.size()));
      made.push_back(Tensor::copy_of(t.data(), t.dtype, std::move(shape)));
    }
  }
  if (out.outputs.empty()) return std::nullopt;
  return out;
}

}  // namespace fk
