// SPDX-License-Identifier: Apache-2.0
#include "core/cases/rope_table.hpp"

#include <cmath>

namespace fk {

void make_rope(Random random, int64_t length, int64_t width, Tensor& t) {
  const int64_t half = width / 2;
  const double factor = 1 + random.uniform() / 8;
  for (int64_t i = 0; i < half; ++i) {
    const double frequency = random.uniform();
    for (int64_t p = 0; p < length; ++p) {
      const double angle = static_cast<double>(p) * frequency;
      t.set(p * width + i, factor * std::cos(angle));
      t.set(p * width + half + i, factor * std::sin(angle));
    }
  }
}

}  // namespace fk
