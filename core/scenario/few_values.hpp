// SPDX-License-Identifier: Apache-2.0
// The measure of an error of few values.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/tensor/compare.hpp"

namespace fk {

// The factor for an error over the spread. The spread of few values is no measure if they lie
// close together, such as the two logits of a batch of two. Then their root mean square is it.
inline double share_of_few(const Difference& d, const Tensor& want) {
  constexpr int64_t kFewElements = 8;
  if (want.numel() == 0 || want.numel() >= kFewElements) return 1;
  double squares = 0;
  for (const double value : want.values()) squares += value * value;
  const double size = std::sqrt(squares / static_cast<double>(want.numel()));
  return std::isfinite(size) ? d.spread / std::max(d.spread, size) : 1;
}

}  // namespace fk
