// SPDX-License-Identifier: Apache-2.0
// Random sizes and orders, for the generators of whole numbers.
#pragma once
#include <cstdint>
#include <vector>

#include "core/tensor/random.hpp"

namespace fk {

// Cuts `total` into `parts` uneven pieces: each at least 1 if `total` suffices, and at most `most`
// if the pieces can hold `total`.
std::vector<int64_t> cut(int64_t total, int64_t parts, Random& random, int64_t most = INT64_MAX);
// 0 to n - 1 in some order.
std::vector<int64_t> permutation(int64_t n, Random& random);
// Numbers below n in rows of equal width. by_column: distinct over all rows, column by column,
// until n is exhausted, then again. by_row: distinct in each row.
std::vector<int64_t> distinct_by_column(int64_t count, int64_t rows, int64_t n, Random& random);
std::vector<int64_t> distinct_by_row(int64_t rows, int64_t columns, int64_t n, Random& random);

}  // namespace fk
