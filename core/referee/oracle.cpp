// SPDX-License-Identifier: Apache-2.0
// The reference's answer to a case, and the one tolerance for choices: where two answers are
// equally right within rounding.
#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "core/referee/check.hpp"
#include "core/referee/execute.hpp"
#include "core/referee/selection.hpp"

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

namespace {

// The input whose rows are chosen from: float, with the leading axes of the output.
const CaseField* scores_of(const ResolvedCase& r, const CaseField& chosen) {
  for (const auto& f : r.fields) {
    if (!f.present || f.slot->section != SectionId::forward || f.slot->role != Role::in) continue;
    if (is_float(f.dtype) && f.shape.size() == 2 && !chosen.shape.empty() &&
        f.shape[0] == chosen.shape[0])
      return &f;
  }
  return nullptr;
}

}  // namespace

std::vector<uint8_t> equally_right(const ResolvedCase& r, const CaseField& chosen,
                                   const Tensor& got, const Tensor& want,
                                   const CaseValues& values) {
  std::vector<uint8_t> out(static_cast<size_t>(got.numel()), 0);
  const CaseField* scores = scores_of(r, chosen);
  if (!scores || is_float(chosen.dtype)) return out;
  const Tensor& table = values.at(scores->slot->name)[0];
  const int64_t columns = got.shape.size() > 1 ? got.shape[1] : 1, width = scores->shape[1];
  for (int64_t i = 0; i < got.numel(); ++i) {
    const auto a = static_cast<int64_t>(got.at(i)), b = static_cast<int64_t>(want.at(i));
    if (a == b || a < 0 || a >= width || b < 0 || b >= width) continue;
    const double x = table.at(i / columns * width + a), y = table.at(i / columns * width + b);
    // Different scores that a softmax in float32 cannot tell apart; equal scores have an order.
    const double near = 4 * epsilon(DType::f32) * std::max({1.0, std::abs(x), std::abs(y)});
    out[static_cast<size_t>(i)] = x != y && std::abs(x - y) <= near;
  }
  return out;
}

}  // namespace fk
