// SPDX-License-Identifier: Apache-2.0
// Errors as large as roundings to a lower precision: of the output, between steps, or within sums.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/cases/patterns/pattern.hpp"

namespace fk {
namespace {

constexpr PatternKind kPrecisionKinds[] = {
    {"rounded_output", surety::kFigure,
     "out holds values of bf16: it was rounded before the store"},
    {"rounded_between", surety::kFigure,
     "the errors are those of one rounding to bf16 between float32 steps"},
    {"small_errors", surety::kKind,
     "all errors are small, at most 0.00015 of the values: a step or a function is imprecise"},
    {"sum_in_low_precision", surety::kFigure, "the errors are those of a sum of 64 terms in bf16"}};

struct LowPrecision {
  DType dtype;
  const char* name;
  double unit() const { return epsilon(dtype) / 2; }  // largest relative error of one rounding
};
constexpr LowPrecision kLowPrecisions[] = {{DType::f16, "f16 or tf32"}, {DType::bf16, "bf16"}};

// Root mean squares of errors, as multiples of unit(). One rounding gives 0.3 to 0.5, a few give up
// to 0.9, and a difference of rounded values gives more. Sums begin there. Eight times the least of
// f16 is the least of bf16.
constexpr double kLeastOfOne = 0.2, kMostOfFew = 0.9, kMostOfDifference = 2.2;
// A sum of n terms in one variable has about 0.3 sqrt(n) roundings, because partial sums grow. The
// factor allows twice this.
constexpr double kMostOfSum = 0.6;
constexpr double kOutlier = 12;   // times the root mean square: no rounding
constexpr double kRounded = 0.9;  // share of elements with an error beyond float32

struct ErrorSizes {
  double rms = 0;      // of all errors, as a share of the values' root mean square
  double mean = 0;     // the same for their mean factor
  bool common = true;  // most elements are off, none is an outlier
  bool mixed = true;   // errors of both signs
};

ErrorSizes sizes_of_errors(const WrongAnswer& answer) {
  double errors = 0, values = 0, products = 0;
  int64_t count = 0, off = 0, above = 0;
  for (size_t i = 0; i < answer.want_values.size(); ++i) {
    if (answer.kept(i)) continue;
    const double w = answer.want_values[i], error = answer.got_values[i] - w;
    errors += error * error, values += w * w, products += error * w;
    off += std::abs(error) > 4 * epsilon(DType::f32) * std::abs(w);
    above += error * w > 0;
    ++count;
  }
  ErrorSizes out;
  if (count == 0 || !(values > 0)) return out;
  out.rms = std::sqrt(errors / values), out.mean = products / values;
  const double size = std::sqrt(values / static_cast<double>(count));
  out.common = static_cast<double>(off) >= kRounded * static_cast<double>(count);
  out.mixed = above * 10 >= off && (off - above) * 10 >= off;
  for (size_t i = 0; i < answer.want_values.size() && out.common; ++i) {
    const double w = answer.want_values[i];
    out.common =
        std::abs(answer.got_values[i] - w) <= kOutlier * out.rms * std::max(std::abs(w), size);
  }
  return out;
}

// The lower precision whose values all elements have; null: they need more bits.
const LowPrecision* precision_of_values(const WrongAnswer& answer) {
  for (auto low = std::rbegin(kLowPrecisions); low != std::rend(kLowPrecisions); ++low) {
    const Tensor rounded = answer.got.to(low->dtype).to(DType::f32);
    bool all = true, tells = false;
    for (int64_t i = 0; i < rounded.numel() && all; ++i) {
      all = rounded.at(i) == answer.got_values[static_cast<size_t>(i)];
      tells |= answer.want_values[static_cast<size_t>(i)] != rounded.at(i);
    }
    if (all && tells) return &*low;
  }
  return nullptr;
}

Explanation precision_found(const char* name, std::string text, std::string next, double rms,
                            double unit) {
  return {name,
          surety::kFigure + 0.05,
          std::move(text),
          std::move(next),
          {{"error_rms", rms}, {"roundings", unit > 0 ? rms / unit : 0}}};
}

// True if at least half of all rows and columns have a wrong element.
bool is_everywhere(const WrongAnswer& answer) {
  const int64_t columns = answer.want.shape.empty() ? 1 : answer.want.shape.back();
  std::set<int64_t> row, column;
  for (int64_t i = 0; i < answer.size(); ++i)
    if (answer.wrong[static_cast<size_t>(i)]) row.insert(i / columns), column.insert(i % columns);
  return 2 * static_cast<int64_t>(row.size()) * columns >= answer.size() &&
         2 * static_cast<int64_t>(column.size()) >= columns;
}

// Errors below one rounding to bf16, of both signs and everywhere. A wrong formula has larger ones.
std::optional<Explanation> look_for_small_errors(const WrongAnswer& answer) {
  constexpr int64_t kFewestSmall = 8;
  if (answer.count < kFewestSmall || !is_everywhere(answer)) return std::nullopt;
  double squares = 0, largest = 0;
  for (const double w : answer.want_values) squares += w * w;
  const double size = std::sqrt(squares / static_cast<double>(answer.size()));
  int64_t above = 0;
  for (size_t i = 0; i < answer.wrong.size(); ++i) {
    const double w = answer.want_values[i], error = answer.got_values[i] - w;
    largest = std::max(largest, std::abs(error) / std::max(std::abs(w), size));
    above += answer.wrong[i] && error * w > 0;
  }
  const bool mixed = above * 10 >= answer.count && (answer.count - above) * 10 >= answer.count;
  if (!mixed || !(largest <= epsilon(DType::bf16) / 2)) return std::nullopt;
  return Explanation{
      "small_errors",
      surety::kKind + 0.05,
      fmt::format("all errors are small, at most {:.2g} of the values: a step or a function is "
                  "imprecise",
                  largest),
      "The formula may be right. Look for an intermediate in f16, bf16 or tf32, and for "
      "approximate "
      "functions (fast math, tables).",
      {{"largest", largest}}};
}

std::optional<Explanation> look_for_roundings(const WrongAnswer& answer) {
  const ErrorSizes errors = sizes_of_errors(answer);
  if (!errors.common || !(errors.rms > 0)) return std::nullopt;
  const bool wide = bytes(answer.field.dtype) >= 4;
  const LowPrecision* low = wide ? precision_of_values(answer) : nullptr;
  if (low && errors.rms <= kMostOfFew * low->unit())
    return precision_found("rounded_output",
                           fmt::format("{} holds values of {}: it was rounded before the store",
                                       answer.field.slot->name, name(low->dtype)),
                           "Keep float32 until the store; the output's dtype is float32.",
                           errors.rms, low->unit());
  const int64_t terms = answer.resolved.contract->tolerance.length.eval(answer.resolved.axes);
  const bool lines = answer.place == "line_factor";  // a sum of each row is imprecise
  if (!errors.mixed) return std::nullopt;
  for (const LowPrecision& each : kLowPrecisions) {
    const double roundings = errors.rms / each.unit();
    if (!lines && std::abs(errors.mean) > 0.5 * errors.rms) continue;
    if (roundings < kLeastOfOne) continue;
    if (each.dtype == DType::f16 && roundings >= 8 * kLeastOfOne) continue;
    const bool sums = terms > 8;
    if (sums && (lines || !wide || roundings > kMostOfFew)) {
      // More than the roundings of the sum is another mistake.
      if (roundings >
          std::max(kMostOfDifference, kMostOfSum * std::sqrt(static_cast<double>(terms))))
        continue;
      return precision_found(
          "sum_in_low_precision",
          fmt::format("the errors are those of a sum of {} terms in {}", terms, each.name),
          "Accumulate in float32, also between tiles and threads, and round once, at the store.",
          errors.rms, each.unit());
    }
    if (roundings > kMostOfDifference) continue;
    return precision_found(
        "rounded_between",
        fmt::format("the errors are those of one rounding to {} between float32 steps", each.name),
        fmt::format("Keep intermediates in float32: no variable, no shared memory and no input of "
                    "a product in {}.",
                    each.name),
        errors.rms, each.unit());
  }
  return std::nullopt;
}

std::optional<Explanation> look_for_precision(const WrongAnswer& answer) {
  constexpr int64_t kFewest = 32;
  if (!is_float(answer.field.dtype) || !answer.all_finite() || answer.size() < kFewest)
    return std::nullopt;
  if (auto found = look_for_roundings(answer)) return found;
  return look_for_small_errors(answer);
}

}  // namespace

FK_PATTERN(precision, kPrecisionKinds, look_for_precision);

}  // namespace fk
