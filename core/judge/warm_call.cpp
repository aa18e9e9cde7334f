// SPDX-License-Identifier: Apache-2.0
#include "core/judge/warm_call.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/check/check.hpp"
#include "core/judge/plan/hidden_cases.hpp"
#include "core/judge/rank_buffers.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

constexpr int64_t kMostBytes = 4 << 20;

int64_t bytes_of(const ResolvedCase& step) {
  int64_t all = 0;
  for (const CaseField& field : step.fields) {
    if (!field.present) continue;
    for (int64_t i = 0; i < field.entries; ++i) {
      int64_t bytes = fk::bytes(field.dtype);
      for (const int64_t n : field.shape_of(i)) bytes *= n;
      all += bytes;
    }
  }
  return all;
}

// True if no axis and no bound of `step` exceeds the case's, and at least one axis is smaller.
bool is_smaller(const ResolvedCase& step, const ResolvedCase& hidden) {
  bool smaller = false;
  for (const auto& [axis, n] : step.axes) {
    if (n > hidden.axes.at(axis)) return false;
    smaller |= n < hidden.axes.at(axis);
  }
  for (const auto& slot : step.contract->section(SectionId::forward)) {
    const auto at = static_cast<size_t>(slot.index);
    if (slot.kind == SlotKind::integer && step.scalars[at].i > hidden.scalars[at].i) return false;
  }
  return smaller;
}

}  // namespace

std::unique_ptr<CaseFrames> first_step(Device& device, const ResolvedCase& hidden,
                                       const PosedCase& posed, uint64_t draw) {
  Variant fewer = posed.variant;
  fewer.axes.clear();
  fewer.listed.clear();
  Random random(draw ^ 1);
  const double share = random.uniform() / 2;
  shrink_rows(
      posed.source,
      [&](int64_t n) {
        return std::max(
            std::min<int64_t>(n, 1),
            std::min(static_cast<int64_t>(share * static_cast<double>(n)), fewest_hidden(n) - 1));
      },
      fewer);
  ResolvedCase step = resolve(*hidden.contract, posed.source, fewer);
  for (auto& field : step.fields) field.present &= field.slot->section != SectionId::weights;
  if (!is_smaller(step, hidden) || bytes_of(step) > kMostBytes) return nullptr;
  Layout layout = case_layout(fewer, 0);
  layout.snapshot = false;
  return std::make_unique<CaseFrames>(device, step,
                                      make_forward_inputs(step, draw, 1, Family::ordinary), layout);
}

}  // namespace fk
