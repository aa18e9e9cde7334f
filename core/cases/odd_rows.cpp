// SPDX-License-Identifier: Apache-2.0
#include "core/cases/odd_rows.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/cases/each_row.hpp"

namespace fk {

void make_zero_rows(Random random, Tensor& t) {
  const int64_t width = t.shape.back();
  for (int64_t row = 0; row < t.numel() / width; ++row) {
    const bool zero = row < 2 ? row == 0 : random.uniform() < 0.5;
    for (int64_t i = 0; zero && i < width; ++i) t.set(row * width + i, 0);
  }
}

void make_sized_rows(Random& random, int least, Tensor& t) {
  const int64_t rows = t.numel() / t.shape.back(), whole = random.integer(0, 2);
  std::vector<float> factor(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    const bool zero = row < 2 ? row != whole : random.uniform() < 0.2;
    const double power = row == whole ? 0 : -least * random.uniform();
    factor[static_cast<size_t>(row)] = zero ? 0 : static_cast<float>(std::exp2(power));
  }
  each_row(t, [&](int64_t row, std::span<float> values) {
    for (float& value : values) value *= factor[static_cast<size_t>(row)];
    return true;
  });
}

void make_either(Random random, double value, Tensor& t) {
  const int64_t first = random.integer(0, 2);
  for (int64_t i = 0; i < t.numel(); ++i)
    if (i < 2 ? i == first : random.uniform() < 0.5) t.set(i, value);
}

void make_peaks(Random random, double value, Tensor& t) {
  const int64_t width = t.shape.back();
  for (int64_t row = 0; row < t.numel() / width; ++row)
    t.set(row * width + random.integer(0, width), value + random.uniform() / 4);
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

void skip_some(Random random, Tensor& t) {
  for (int64_t i = 0; i < t.numel(); ++i)
    if (i == 1 || (i > 1 && random.uniform() < 0.3)) t.set(i, -1);
}

void make_ellipses(Tensor& t) {
  for (int64_t i = 0; i + 2 < t.numel(); i += 3)
    t.set(i + 1, (i % 2 ? 0.5 : -0.5) * std::sqrt(t.at(i) * t.at(i + 2)));
}

}  // namespace fk
