// SPDX-License-Identifier: Apache-2.0
//
// Turns the counts of wrong elements per row and column into a sentence and advice.

#include "core/tensor/pattern.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/text.hpp"

namespace fk {

constexpr const char* kFactorNext =
    "A factor is missing or applied twice: a scale, a weight, or a mean's 1/n. Or a sum skips or "
    "repeats a part.";
constexpr const char* kOffsetNext = "A term is missing or added twice: a bias, a residual, an epsilon.";
const Advice kFormula = {
    "every_element",
    "Compute the first element by hand from the contract (`fk-host show OP`). Check the formula "
    "and the order of inputs. If other cases are right, compare sizes: a sum may miss its tail."};

namespace {

constexpr Advice kNan = {
    "nan",
    "NaN comes from 0/0, inf - inf, the root of a negative number, or unwritten memory: outputs "
    "and scratch hold NaN before a call. Begin at the first NaN."};
constexpr Advice kUntouched = {
    "unwritten",
    "The elements were not written, or come from unwritten scratch. Check the conditions of the "
    "store. Look for rows and columns that no iteration reaches."};
constexpr Advice kZeros = {
    "zeros", "The elements are zero. Check the stored value, and that the loop reaches them."};
constexpr Advice kSignedZeros = {
    "signed_zeros",
    "The values are +0 and -0: a factor is 0 or a divisor infinite. Look for an overflowing sum, "
    "and for an input read with the wrong dtype."};
constexpr Advice kFactor = {"factor", kFactorNext}, kOffset = {"offset", kOffsetNext};
// No sum of right inputs exceeds the answer by such a factor.
constexpr double kHugeTimes = 1e15;
constexpr Advice kHuge = {
    "huge",
    "No formula of these inputs gives values of this size. Look for an input read with the wrong "
    "dtype (float32 as bfloat16), for unwritten memory, and for overflow (exp() without the row's"
    " maximum)."};
constexpr Advice kConstant = {"constant",
                              "All values are equal. Check the index of loads and stores."};
constexpr Advice kSign = {"sign", "A sign is wrong."};
constexpr Advice kTail = {
    "tail", "Only the end is wrong. Check the tail that fills no vector, tile or block."};
constexpr Advice kStep = {
    "step",
    "Every n-th element is wrong. Look for one lane, thread or unrolled iteration that differs "
    "from the others."};
constexpr Advice kPlace = {
    "rows_or_columns",
    "Check conditions on this index (< or <=), and look for a second write to it."};
constexpr Advice kOneElement = {"one_element", kPlace.next};
constexpr Advice kScattered = {
    "scattered",
    "The error depends on values or on timing. Check branches on values and overflow. Look for a "
    "missing barrier or atomic."};
constexpr Advice kRounding = {
    "rounding",
    "The errors fit a lower precision. Accumulate in float32, and round once, at the store."};

// The indices with a count above 0.
std::vector<int64_t> touched(const std::vector<int64_t>& counts) {
  std::vector<int64_t> result;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) result.push_back(static_cast<int64_t>(i));
  }
  return result;
}

std::string ordinal(int64_t n) {
  const bool teen = n % 100 >= 11 && n % 100 <= 13;
  const char* ending = teen || n % 10 > 3 || n % 10 == 0 ? "th"
                       : n % 10 == 1                     ? "st"
                       : n % 10 == 2                     ? "nd"
                                                         : "rd";
  return fmt::format("{}{}", n, ending);
}

// "rows 3 and 7", "all rows from 16 on", "last 3 columns", "every 4th row from 1"; empty when the
// indices have no short description.
Pattern describe(const std::vector<int64_t>& indices, int64_t total, const std::string& noun) {
  const auto count = static_cast<int64_t>(indices.size());
  const int64_t first = indices.front(), last = indices.back();
  if (count == total) return {"every " + noun, &kFormula};
  if (count == 1 && first == total - 1)
    return {fmt::format("the last {} ({})", noun, first), &kTail};
  if (count == 1) return {fmt::format("{} {}", noun, first), &kPlace};
  if (last - first + 1 == count) {
    if (last == total - 1) {
      return {noun == "row" ? fmt::format("all rows from {} on", first)
                            : fmt::format("last {} {}s", count, noun),
              &kTail};
    }
    if (first == 0) return {fmt::format("first {} {}s", count, noun), &kPlace};
    return {fmt::format("{}s {} to {}", noun, first, last), &kPlace};
  }
  if (count <= 4) {
    std::string text = noun + "s ";
    for (std::size_t i = 0; i < indices.size(); ++i) {
      text += i == 0 ? "" : i + 1 == indices.size() ? " and " : ", ";
      text += std::to_string(indices[i]);
    }
    return {text, &kPlace};
  }
  const int64_t step = indices[1] - first;
  for (std::size_t i = 1; i < indices.size(); ++i) {
    if (indices[i] - indices[i - 1] != step) return {};
  }
  if (first < step && last + step >= total) {
    return {fmt::format("every {} {} from {}", ordinal(step), noun, first), &kStep};
  }
  return {fmt::format("every {} {} from {} to {}", ordinal(step), noun, first, last), &kStep};
}

std::string number(double value) {
  const std::string text = fmt::format("{:.4g}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

}  // namespace

PatternFinder::PatternFinder(const Shape& shape, int64_t numel, double limit)
    : columns_(shape.empty() ? 1 : shape.back()), numel_(numel), limit_(limit) {
  rows_ = numel / columns_;
  row_wrong_.resize(static_cast<std::size_t>(rows_));
  column_wrong_.resize(static_cast<std::size_t>(columns_));
}

void PatternFinder::add(int64_t index, double got, double want, bool wrong) {
  if (index == 0) first_got_ = got;
  constant_ = constant_ && got == first_got_;
  if (wrong) {
    ++wrong_;
    wrong_zero_ += got == 0 ? 1 : 0;
    minus_zero_ |= got == 0 && std::signbit(got);
    const bool huge = std::abs(got) > kHugeTimes * std::max(1.0, std::abs(want));
    huge_ += huge ? 1 : 0;
    if (huge && std::isfinite(got)) largest_ = std::max(largest_, std::abs(got));
    wrong_sign_ += std::abs(got + want) <= limit_ ? 1 : 0;
    ++row_wrong_[static_cast<std::size_t>(index / columns_)];
    ++column_wrong_[static_cast<std::size_t>(index % columns_)];
  }
  if (!std::isfinite(got) || !std::isfinite(want)) return;
  ++finite_;
  sum_gw_ += got * want;
  sum_ww_ += want * want;
  sum_error_ += got - want;
}

bool PatternFinder::wants_second_look() {
  // A common explanation needs more than a handful of elements, most of them wrong.
  if (numel_ < 4 || finite_ != numel_ || wrong_ * 4 < numel_ || constant_) return false;
  if (sum_ww_ > 0 && std::isfinite(sum_gw_) && std::isfinite(sum_ww_)) {
    factor_ = sum_gw_ / sum_ww_;
    off_factor_ = 0;
  }
  offset_ = sum_error_ / static_cast<double>(numel_);
  off_offset_ = std::isfinite(offset_) ? 0 : -1;
  return true;
}

void PatternFinder::look_again(double got, double want) {
  const double allowed = std::max(limit_, 1e-12 * std::abs(want));
  if (off_factor_ >= 0) {
    const double error = std::abs(got - factor_ * want);
    off_factor_ += error > allowed * std::max(1.0, std::abs(factor_)) ? 1 : 0;
  }
  if (off_offset_ >= 0) off_offset_ += std::abs(got - want - offset_) > allowed ? 1 : 0;
}

Pattern PatternFinder::region() const {
  if (wrong_ == numel_) return {"every element", &kFormula};
  const std::vector<int64_t> rows = touched(row_wrong_), columns = touched(column_wrong_);
  const auto box = static_cast<int64_t>(rows.size()) * static_cast<int64_t>(columns.size());
  // A few elements of a wrong region are right by accident. If many are right, it is no region.
  const bool filled = wrong_ * 4 >= box * 3;
  if (wrong_ * 10 >= numel_ * 9) {
    const double percent = 100 * static_cast<double>(wrong_) / static_cast<double>(numel_);
    return {fmt::format("nearly every element ({:.1f} %)", percent), &kFormula};
  }
  const Pattern scattered = {fmt::format("scattered over {} of {} elements", wrong_, numel_),
                             &kScattered};
  if (rows_ == 1) {
    const Pattern whole = describe(columns, columns_, "element");
    return whole.text.empty() || !filled ? scattered : whole;
  }
  const Pattern row = describe(rows, rows_, "row"), column = describe(columns, columns_, "column");
  if (wrong_ == 1)
    return {fmt::format("one element, row {}, column {}", rows[0], columns[0]), &kOneElement};
  // Whole rows or columns; a few of their values may be right by accident.
  const auto whole_rows = static_cast<int64_t>(rows.size()) * columns_;
  const auto whole_columns = static_cast<int64_t>(columns.size()) * rows_;
  if (wrong_ * 10 > whole_rows * 8 && !row.text.empty()) return row;
  if (wrong_ * 10 > whole_columns * 8 && !column.text.empty())
    return {column.text + " of every row", column.advice};
  if (filled && !row.text.empty() && !column.text.empty()) {
    const bool all_columns = static_cast<int64_t>(columns.size()) == columns_;
    if (all_columns && static_cast<int64_t>(rows.size()) == rows_) return scattered;
    return {column.text + " of " + row.text, all_columns ? row.advice : column.advice};
  }
  for (const auto& [one, all] : {std::pair(row, "every row"), std::pair(column, "every column")})
    if (!one.text.empty() && one.text != all)
      return {scattered.text + ", all in " + one.text, one.advice};
  return scattered;
}

Pattern PatternFinder::pattern(int64_t nan_count, bool untouched) const {
  if (wrong_ == 0) return {"looks like rounding noise", &kRounding};
  if (nan_count > 0 && untouched) {
    const std::string text = "nothing was written to " +
                             (nan_count == numel_ ? "any" : std::to_string(nan_count)) +
                             (nan_count == 1 || nan_count == numel_ ? " element" : " elements");
    return {nan_count == numel_   ? text
            : nan_count == wrong_ ? text + ": " + region().text
                                  : text + ", wrong: " + region().text,
            &kUntouched};
  }
  // Bits read in another dtype give about a third of such values.
  if (huge_ * 16 >= wrong_ && huge_ > 1)
    return {region().text + ", of sizes up to " + (largest_ > 0 ? number(largest_) : "infinity"),
            &kHuge};
  if (nan_count > 0) {
    const std::string text = nan_count == numel_ ? "NaN in every element"
                                                 : fmt::format("NaN in {} element{}", nan_count,
                                                               nan_count == 1 ? "" : "s");
    if (nan_count == numel_) return {text, &kNan};
    return {text + (nan_count == wrong_ ? ": " : ", wrong: ") + region().text, &kNan};
  }
  if (constant_ && numel_ > 1) {
    if (first_got_ == 0 && minus_zero_) return {"all zeros, of both signs", &kSignedZeros};
    if (first_got_ == 0) return {"all zeros", &kZeros};
    return {"constant " + number(first_got_) + " in every element", &kConstant};
  }
  // The factor and the offset may fail for a few elements, for example saturated ones.
  const int64_t few = numel_ / 1000;
  if (off_factor_ >= 0 && off_factor_ <= few && std::abs(factor_) > 1e-3) {
    return {"every element x " + number(factor_), std::abs(factor_ + 1) < 1e-6 ? &kSign : &kFactor};
  }
  if (off_offset_ >= 0 && off_offset_ <= few)
    return {"every element + " + number(offset_), &kOffset};
  const Pattern where = region();
  if (wrong_zero_ == wrong_ && wrong_ > 1)
    return {where.text + ": zeros", where.advice == &kTail ? &kTail : &kZeros};
  if (wrong_sign_ == wrong_ && wrong_ > 1) return {where.text + ": the sign", &kSign};
  return where;
}

}  // namespace fk
