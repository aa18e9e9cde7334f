// SPDX-License-Identifier: Apache-2.0
//
// Describes in one sentence where and how the elements of a comparison are wrong. Private to
// compare.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace fk {

/// A kind of pattern (core/cases/patterns/place.cpp has an example of each), and what to check.
struct Advice {
  const char *name, *next;  // next: whole sentences
};
struct Pattern {
  std::string text;
  const Advice* advice = nullptr;
};

/// Advice for the patterns that other files report too.
extern const Advice kFormula;
extern const char *const kFactorNext, *const kOffsetNext;

/// Explains `got` by values of `want` at other positions ("every element holds what belongs 1
/// further on"). Or one factor or term for each row or column explains it. Empty if neither holds,
/// or if the number of elements is too small or too large. `limit`: as below.
Pattern explained(const TensorView& got, const TensorView& want, double limit);

/// Rows are all leading axes flattened, columns the last axis.
class PatternFinder {
 public:
  /// `limit` is the absolute error that separates wrong elements from noise.
  PatternFinder(const Shape& shape, int64_t numel, double limit);

  /// Must be called once for each element, in order.
  void add(int64_t index, double got, double want, bool wrong);
  /// True if a factor or an offset could explain the errors; then look_again must be called for
  /// each element.
  bool wants_second_look();
  void look_again(double got, double want);
  /// `untouched`: all NaN come from memory that was never written.
  Pattern pattern(int64_t nan_count, bool untouched) const;

 private:
  Pattern region() const;

  int64_t rows_ = 1, columns_ = 1, numel_ = 0;
  double limit_ = 0;
  std::vector<int64_t> row_wrong_, column_wrong_;
  int64_t wrong_ = 0, wrong_zero_ = 0, wrong_sign_ = 0, finite_ = 0;
  int64_t huge_ = 0;  // of a size that no right inputs give
  double first_got_ = 0, largest_ = 0;
  bool constant_ = true, minus_zero_ = false;
  double sum_gw_ = 0, sum_ww_ = 0, sum_error_ = 0;
  double factor_ = 1, offset_ = 0;
  int64_t off_factor_ = -1, off_offset_ = -1;  // elements that it fails to explain; -1: not tried
};

}  // namespace fk
