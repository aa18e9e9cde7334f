// SPDX-License-Identifier: Apache-2.0
// Random sizes and orders, for the generators of whole numbers.
#pragma once
#include <cstdint>
#include <vector>

#include "core/tensor/random.hpp"

namespace fk {

// Cuts `total` into `parts` uneven pieces, each at least 1 while there is enough and at most
// `most`, if all of them together can hold that.
std::vector<int64_t> cut(int64_t total, int64_t parts, Random& random, int64_t most = INT64_MAX);
// 0 to n - 1 in some order.
std::vector<int64_t> permutation(int64_t n, Random& random);
// Numbers below n in rows of equal width: distinct in all of them together, from the first column
// on until there are no more, and then again; or in each row.
std::vector<int64_t> distinct_by_column(int64_t count, int64_t rows, int64_t n, Random& random);
std::vector<int64_t> distinct_by_row(int64_t rows, int64_t columns, int64_t n, Random& random);

}  // namespace fk
