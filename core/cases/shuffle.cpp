// SPDX-License-Identifier: Apache-2.0
#include "core/cases/shuffle.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace fk {

std::vector<int64_t> cut(int64_t total, int64_t parts, Random& random, int64_t most) {
  std::vector<int64_t> sizes(static_cast<size_t>(parts), total >= parts ? 1 : 0);
  int64_t left = total - (total >= parts ? parts : 0);
  // Weights differ by up to a factor of eight: batches of equal lengths hide indexing errors.
  std::vector<double> weight;
  for (int64_t i = 0; i < parts; ++i) weight.push_back(std::exp2(3 * random.uniform()));
  const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
  const int64_t shared = left;
  for (size_t i = 0; i + 1 < sizes.size(); ++i) {
    const auto part =
        std::min(left, static_cast<int64_t>(weight[i] / sum * static_cast<double>(shared)));
    sizes[i] += part;
    left -= part;
  }
  if (!sizes.empty()) sizes.back() += left;
  // The excess of a piece goes to other pieces, in random order. The last piece, which got the
  // rest, changes its place at random.
  int64_t over = 0;
  for (int64_t& size : sizes) {
    over += std::max<int64_t>(0, size - most);
    size = std::min(size, most);
  }
  if (over == 0) return sizes;
  for (const int64_t i : permutation(parts, random)) {
    const int64_t more = std::min(over, most - sizes[static_cast<size_t>(i)]);
    sizes[static_cast<size_t>(i)] += more;
    over -= more;
  }
  std::swap(sizes.back(), sizes[static_cast<size_t>(random.integer(0, parts))]);
  return sizes;
}

std::vector<int64_t> permutation(int64_t n, Random& random) {
  std::vector<int64_t> out(static_cast<size_t>(n));
  std::iota(out.begin(), out.end(), 0);
  for (int64_t i = n - 1; i > 0; --i)
    std::swap(out[static_cast<size_t>(i)], out[static_cast<size_t>(random.integer(0, i + 1))]);
  return out;
}

std::vector<int64_t> distinct_by_column(int64_t count, int64_t rows, int64_t n, Random& random) {
  const auto order = permutation(n, random);
  const int64_t columns = count / rows;
  std::vector<int64_t> out;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < columns; ++i)
      out.push_back(order[static_cast<size_t>((i * rows + row) % n)]);
  return out;
}

std::vector<int64_t> distinct_by_row(int64_t rows, int64_t columns, int64_t n, Random& random) {
  std::vector<int64_t> out;
  for (int64_t row = 0; row < rows; ++row) {
    const auto order = permutation(n, random);
    out.insert(out.end(), order.begin(), order.begin() + columns);
  }
  return out;
}

}  // namespace fk
