// SPDX-License-Identifier: Apache-2.0
//
// Says in one sentence where and how the elements of a comparison are wrong. Private to compare.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor/tensor.hpp"

namespace fk {

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
  std::string sentence(int64_t nan_count) const;

 private:
  std::string region() const;

  int64_t rows_ = 1, columns_ = 1, numel_ = 0;
  double limit_ = 0;
  std::vector<int64_t> row_wrong_, column_wrong_;
  int64_t wrong_ = 0, wrong_zero_ = 0, finite_ = 0;
  double first_got_ = 0;
  bool constant_ = true;
  double sum_gw_ = 0, sum_ww_ = 0, sum_error_ = 0;
  double factor_ = 1, offset_ = 0;
  int64_t off_factor_ = -1, off_offset_ = -1;  // elements that it does not explain; -1 not tried
};

}  // namespace fk
