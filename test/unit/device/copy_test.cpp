// SPDX-License-Identifier: Apache-2.0
// Copies with a rule: rows between steps of different sizes, as pieces of weights are, and tokens.
#include <vector>

#include "core/device/device.hpp"
#include "test/catch.hpp"

using namespace fk;

TEST_CASE("rows of a piece are copied to their places and nothing else is written") {
  const auto cpu = open_device("cpu");
  std::vector<int> from(35), to(20, -1);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int>(i);
  // Columns 2 and 3 of five rows of 7 become columns 1 and 2 of rows of 4.
  cpu->copy_rows(to.data() + 1, 16, from.data() + 2, 28, 8, 5);
  for (size_t row = 0; row < 5; ++row) {
    const int first = static_cast<int>(row * 7 + 2);
    CHECK(std::vector<int>(to.begin() + 4 * static_cast<int>(row),
                           to.begin() + 4 * static_cast<int>(row) + 4) ==
          std::vector<int>{-1, first, first + 1, -1});
  }
  cpu->copy_rows(to.data(), 16, from.data(), 28, 8, 0);
  CHECK(to[0] == -1);
}

TEST_CASE("a copied token is one of the vocabulary") {
  const auto cpu = open_device("cpu");
  const std::vector<int64_t> from = {0, 96, 97, -1, 5};
  std::vector<int64_t> to(5, 7);
  cpu->copy_tokens(to.data(), from.data(), 4, 97);
  CHECK(to == std::vector<int64_t>{0, 96, 0, 0, 7});
}
