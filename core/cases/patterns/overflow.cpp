// SPDX-License-Identifier: Apache-2.0
// No number where scores are large: a softmax without its maximum. No number where 0 is wanted: a
// row that sees nothing, and its 0 / 0.
#include <algorithm>
#include <cmath>

#include "core/cases/patterns/pattern.hpp"

namespace fk {
namespace {

constexpr PatternKind kOverflowKinds[] = {
    {"softmax_without_maximum", surety::kFigure,
     "no number where scores are large: exp() without the row's maximum"},
    {"row_without_keys", surety::kFigure,
     "no number where 0 is wanted: a row without visible keys must give 0"}};

bool has_minus_infinity(const CaseValues& inputs) {
  for (const auto& [name, tensors] : inputs)
    for (const Tensor& tensor : tensors) {
      if (!is_float(tensor.dtype)) continue;
      for (int64_t i = 0; i < tensor.numel(); ++i)
        if (tensor.at(i) == -INFINITY) return true;
    }
  return false;
}

std::optional<Explanation> look_for_overflow(const WrongAnswer& answer) {
  const std::string& numerics = answer.resolved.contract->tolerance.numerics;
  if ((numerics != "softmax" && numerics != "logarithm") || answer.place == "unwritten")
    return std::nullopt;
  int64_t without = 0, for_zero = 0;
  for (size_t i = 0; i < answer.wrong.size(); ++i) {
    if (!answer.wrong[i] || std::isfinite(answer.got_values[i])) continue;
    without += std::isfinite(answer.want_values[i]);
    for_zero += answer.want_values[i] == 0;
  }
  if (without == 0 || without * 2 < answer.count) return std::nullopt;
  if (for_zero == without)
    return Explanation{"row_without_keys",
                       surety::kFigure,
                       "no number where 0 is wanted: a row without visible keys must give 0",
                       "Its sum of exp() is 0. Store 0 there in place of 0 / 0.",
                       {{"elements", static_cast<double>(without)}}};
  const bool masked = has_minus_infinity(answer.inputs);
  return Explanation{
      "softmax_without_maximum",
      surety::kFigure,
      masked ? "no number in rows with masked scores: exp() without the row's maximum, or a row "
               "whose maximum is -inf"
             : "no number where scores are large: exp() without the row's maximum",
      masked ? "Subtract the maximum of the row before exp(), and begin it at -inf. Where the "
               "maximum is -inf, -inf - -inf is no number."
             : "Subtract the maximum of the row before exp(): exp() overflows in float32 beyond "
               "88, and its sum is 0 below -103.",
      {{"elements", static_cast<double>(without)}}};
}

}  // namespace

FK_PATTERN(overflow, kOverflowKinds, look_for_overflow);

}  // namespace fk
