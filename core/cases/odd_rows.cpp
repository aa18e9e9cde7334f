// SPDX-License-Identifier: Apache-2.0
#include "core/cases/odd_rows.hpp"

#include <algorithm>

namespace fk {

void make_zero_rows(Random random, Tensor& t) {
  const int64_t width = t.shape.back();
  for (int64_t row = 0; row < t.numel() / width; ++row) {
    const bool zero = row < 2 ? row == 0 : random.uniform() < 0.5;
    for (int64_t i = 0; zero && i < width; ++i) t.set(row * width + i, 0);
  }
}

void make_sinks(Random random, double by, Tensor& t) {
  constexpr int64_t kEvery = 128;
  const int64_t width = t.shape.back(), rows = t.numel() / width;
  for (int64_t from = 0; from < rows; from += kEvery) {
    const int64_t row = random.integer(from, std::min(from + kEvery, rows));
    const double more = by * (1 + random.uniform() / 4);
    for (int64_t i = row * width; i < (row + 1) * width; ++i) t.set(i, t.at(i) + more);
  }
}

}  // namespace fk
