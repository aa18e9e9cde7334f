// SPDX-License-Identifier: Apache-2.0
// Random sizes and orders, for the generators of whole numbers.
#pragma once
#include <cstdint>
#include <vector>

#include "core/tensor/random.hpp"

namespace fk {

// Cuts `total` into `parts` uneven pieces, each at least 1 while there is enough.
std::vector<int64_t> cut(int64_t total, int64_t parts, Random& random);
// 0 to n - 1 in some order.
std::vector<int64_t> permutation(int64_t n, Random& random);

}  // namespace fk
