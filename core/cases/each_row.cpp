// SPDX-License-Identifier: Apache-2.0
#include "core/cases/each_row.hpp"

#include <algorithm>
#include <vector>

#include "core/base/parts.hpp"

namespace fk {

void each_row(Tensor& t, const std::function<bool(int64_t, std::span<float>)>& change) {
  if (t.numel() == 0) return;
  constexpr int64_t kPart = int64_t{1} << 16;  // elements
  const int64_t width = t.shape.empty() ? 1 : t.shape.back(), rows = t.numel() / width;
  const int64_t step = std::max<int64_t>(1, kPart / width);
  in_parts(static_cast<size_t>((rows + step - 1) / step), [&](size_t part) {
    const int64_t first = static_cast<int64_t>(part) * step, last = std::min(rows, first + step);
    std::vector<float> row(static_cast<size_t>(width));
    for (int64_t i = first; i < last; ++i) {
      auto* at = static_cast<std::byte*>(t.data()) + i * width * bytes(t.dtype);
      convert(at, t.dtype, row.data(), DType::f32, width);
      if (change(i, row)) convert(row.data(), DType::f32, at, t.dtype, width);
    }
  });
}

}  // namespace fk
