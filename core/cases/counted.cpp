// SPDX-License-Identifier: Apache-2.0
#include "core/cases/counted.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace fk {

int64_t Extent::rows() const { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

Extent extent_of(const ResolvedCase& resolved, const CaseField& field, int64_t entry,
                 const CaseValues& outputs) {
  const Shape& shape = field.shape_of(entry);
  const size_t leading = field.slot->count.empty() ? 0 : resolved.contract->count_axes(*field.slot);
  Extent out;
  int64_t groups = 1;
  for (size_t d = 0; d < leading; ++d) groups *= shape[d];
  out.capacity = shape.empty() ? 1 : shape[leading];
  if (shape.size() > leading + 1)
    out.tail.assign(shape.begin() + static_cast<std::ptrdiff_t>(leading) + 1, shape.end());
  out.row = numel(out.tail);
  out.counts.assign(static_cast<size_t>(groups), out.capacity);
  const auto given = outputs.find(field.slot->count);
  if (given == outputs.end()) return out;
  const Tensor& counts =
      given->second[given->second.size() > 1 ? static_cast<size_t>(entry) : size_t{0}];
  for (size_t g = 0; g < out.counts.size(); ++g) {
    const auto count = static_cast<int64_t>(counts.at(static_cast<int64_t>(g)));
    out.counts[g] = count < 0 || count > out.capacity ? 0 : count;
  }
  return out;
}

Tensor valid_part(const Extent& extent, const Tensor& tensor, bool sorted) {
  const int64_t rows = extent.rows();
  const auto groups = static_cast<int64_t>(extent.counts.size());
  if (!sorted && rows == groups * extent.capacity) return tensor;
  Shape shape = {rows};
  shape.insert(shape.end(), extent.tail.begin(), extent.tail.end());
  Tensor out(tensor.dtype, std::move(shape));
  const auto width = static_cast<size_t>(extent.row * bytes(tensor.dtype));
  auto* to = static_cast<std::byte*>(out.data());
  const auto* from = static_cast<const std::byte*>(tensor.data());
  const auto before = [&](int64_t a, int64_t b) {
    for (int64_t i = 0; i < extent.row; ++i) {
      const double x = tensor.at(a * extent.row + i), y = tensor.at(b * extent.row + i);
      if (x != y) return x < y;
    }
    return false;
  };
  for (int64_t g = 0; g < groups; ++g) {
    std::vector<int64_t> order(static_cast<size_t>(extent.counts[static_cast<size_t>(g)]));
    std::iota(order.begin(), order.end(), g * extent.capacity);
    if (sorted) std::sort(order.begin(), order.end(), before);
    for (const int64_t at : order) {
      std::memcpy(to, from + static_cast<size_t>(at) * width, width);
      to += width;
    }
  }
  return out;
}

}  // namespace fk
