// SPDX-License-Identifier: Apache-2.0
// The reference's answer to a case, and the one tolerance for choices: where two answers are
// equally right within rounding.
#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "core/referee/check.hpp"
#include "core/referee/execute.hpp"

namespace fk {

CaseValues reference_outputs(const Provider& reference, const ResolvedCase& resolved,
                             const Case& source, const Variant& variant, const CaseValues& values,
                             const CheckOptions& options, std::string& why) {
  Variant exact = variant;
  exact.layout = Variant::Layout::written;
  for (const auto& f : resolved.fields) {
    const auto& allowed = f.slot->dtypes;
    if (is_float(f.dtype) && std::find(allowed.begin(), allowed.end(), DType::f32) != allowed.end())
      exact.dtypes[f.slot->name] = DType::f32;
    else if (!f.slot->dtype_of.empty())
      exact.dtypes.erase(f.slot->name);
  }
  ResolvedCase call = resolve(*resolved.contract, source, exact);
  call.scalars = resolved.scalars;
  Layout layout;
  layout.snapshot = false;
  CaseFrames frames(call, values, layout);
  const Support support = Instance::supports(reference, frames.meta());
  if (!support.ok) {
    why = "the reference provider refuses: " + support.why;
    return {};
  }
  CaseValues out;
  try {
    GuardDevice device(0, options.threads);
    PackedCache packed;
    std::unique_ptr<LoadedChildren> children;
    if (options.plugins)
      children = std::make_unique<LoadedChildren>(*options.plugins, reference.plugin);
    Execution execution(reference, frames, support.need, device, packed, children.get());
    why = execution.plan(frames);
    if (!why.empty()) return {};
    if (execution.forward(execution.fitted(frames)) != FK_OK) {
      why = std::string("the reference provider failed: ") + execution.instance().error().text;
      return {};
    }
    for (const CaseField* f : frames.written())
      for (int64_t i = 0; i < f->entries; ++i)
        out[f->slot->name].push_back(frames.contents(f->slot->name, i));
  } catch (const Error& e) {
    why = std::string("the reference provider failed: ") + e.what();
    return {};
  }
  return out;
}

}  // namespace fk
