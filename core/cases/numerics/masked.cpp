// SPDX-License-Identifier: Apache-2.0
#include "core/cases/numerics/masked.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "core/cases/each_row.hpp"
#include "core/cases/selection.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

enum Row { kFew, kMost, kLow, kLowAndHalf, kRows };

// Masks one row. Rows differ in kind, so that a few rows contain all kinds.
void mask_row(Random& random, Row kind, bool may_be_low, double low, int64_t kept,
              std::span<float> row) {
  const auto width = static_cast<int64_t>(row.size());
  std::vector<size_t> order(row.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t i = order.size(); i-- > 1;)
    std::swap(order[i], order[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i) + 1))]);
  const int64_t wanted = kind == kFew    ? (width + 7) / 8
                         : kind == kMost ? width
                         : kind == kLow  ? 0
                                         : width / 2;
  const int64_t count = std::clamp<int64_t>(wanted, 0, std::max<int64_t>(0, width - kept));
  for (int64_t i = 0; i < count; ++i) row[order[static_cast<size_t>(i)]] = -INFINITY;
  if (may_be_low && (kind == kLow || kind == kLowAndHalf))
    for (float& logit : row) logit -= static_cast<float>(low);
}

}  // namespace

bool may_mask(const ResolvedCase& resolved, const CaseField& field) {
  const std::string& kind = resolved.contract->tolerance.numerics;
  return resolved.contract->level == 1 && (kind == "selection" || kind == "logarithm") &&
         field.present && is_float(field.dtype) && field.slot->section == SectionId::forward &&
         field.slot->role == Role::in && field.shape.size() == 2 && field.entries == 1 &&
         !(resolved.contents && resolved.contents->count(field.slot->name));
}

void mask_logits(const ResolvedCase& resolved, uint64_t seed, CaseValues& values) {
  // Beside log(sum) a logit of this size loses the precision of a logarithm's comparison. A sigmoid
  // is 0.
  const bool may_be_low =
      resolved.contract->tolerance.numerics == "selection" && scoring_of(resolved) != "sigmoid";
  const auto chosen = resolved.axes.find("K");
  for (const CaseField& field : resolved.fields) {
    const auto made = values.find(field.slot->name);
    if (made == values.end() || !may_mask(resolved, field)) continue;
    const double low = field.dtype == DType::f16 ? 0x1p15 : 0x1p17;
    const int64_t kept = chosen == resolved.axes.end() ? 1 : chosen->second;
    const uint64_t stream = seed_of("masked " + field.slot->name, seed);
    each_row(made->second[0], [&](int64_t row, std::span<float> logits) {
      Random random(seed_of(std::to_string(row), stream));
      const auto kind = static_cast<Row>((static_cast<uint64_t>(row) + stream) % kRows);
      mask_row(random, kind, may_be_low, low, kept, logits);
      return true;
    });
  }
}

}  // namespace fk
