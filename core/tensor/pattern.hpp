// SPDX-License-Identifier: Apache-2.0
//
// Says in one sentence where and how the elements of a comparison are wrong. Private to compare.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace fk {

struct Pattern {
  std::string text;
  const char* next = "";  ///< one sentence: what to look at
};

/// What to look at for some of them.
extern const char *const kFormulaNext, *const kElsewhereNext, *const kFactorNext,
                                                                  *const kOffsetNext;

/// Where nearly all values of `want` are in `got`, but elsewhere ("every element holds what belongs
/// 1 further on"), or where one factor or term for each row or column explains it; empty where that
/// is not so, or there are too many or few to tell. `limit`: as below.
Pattern explained(const TensorView& got, const TensorView& want, double limit);

/// Rows are all leading axes flattened, columns the last axis.
class PatternFinder {
 public:
  /// `limit` is the absolute error that separates wrong elements from noise.
  PatternFinder(const Shape& shape, int64_t numel, double limit);

  /// To be called once for each element in order.
  void add(int64_t index, double got, double want, bool wrong);
  /// Whether a factor or an offset could explain the errors; then look_again is to be called for
  /// each element.
  bool wants_second_look();
  void look_again(double got, double want);
  /// `untouched`: all NaN are of memory that nobody has written.
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
  int64_t off_factor_ = -1, off_offset_ = -1;  // elements that it does not explain; -1 not tried
};

}  // namespace fk
