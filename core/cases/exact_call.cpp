// SPDX-License-Identifier: Apache-2.0
#include "core/cases/exact_call.hpp"

#include <algorithm>
#include <set>

#include "core/cases/numerics/codes.hpp"

namespace fk {

namespace {

Variant exact_variant(const ResolvedCase& resolved, const Variant& variant, Exact which) {
  Variant exact = variant;
  exact.layout = Variant::Layout::written;
  std::set<std::string> chosen;
  for (const auto& f : resolved.fields) {
    if (f.slot->section == SectionId::weights) continue;
    if (which == Exact::outputs && f.slot->role == Role::in) continue;
    chosen.insert(f.slot->name);
    chosen.insert(f.slot->dtype_of);
  }
  for (const auto& f : resolved.fields) {
    const auto& allowed = f.slot->dtypes;
    if (!f.slot->dtype_of.empty())
      exact.dtypes.erase(f.slot->name);
    else if (which != Exact::all &&
             (bytes(f.dtype) < 2 || (which != Exact::wide && !chosen.count(f.slot->name))))
      exact.dtypes[f.slot->name] = f.dtype;
    else if (is_float(f.dtype) &&
             std::find(allowed.begin(), allowed.end(), DType::f32) != allowed.end())
      exact.dtypes[f.slot->name] = DType::f32;
  }
  return exact;
}

}  // namespace

Exact exact_on_device(const ResolvedCase& resolved, const CaseValues& values) {
  const auto moved = [&](const CaseField& f) {
    const auto its = values.find(f.slot->name);
    return f.present && f.slot->section == SectionId::forward && its != values.end() &&
           std::ranges::any_of(its->second, [&](const Tensor& t) {
             return is_float(t.dtype) && bytes(t.dtype) > bytes(f.dtype);
           });
  };
  return std::ranges::any_of(resolved.fields, moved) ? Exact::forward : Exact::outputs;
}

ResolvedCase exact_call(const ResolvedCase& resolved, const Case& source, const Variant& variant,
                        Exact which) {
  ResolvedCase call = resolve(*resolved.contract, source, exact_variant(resolved, variant, which));
  call.scalars = resolved.scalars;
  // A decomposition's graph has the dtypes of its contracts.
  if (which == Exact::outputs || which == Exact::all)
    for (CaseField& f : call.fields) widen_codes(*resolved.contract, f);
  return call;
}

}  // namespace fk
