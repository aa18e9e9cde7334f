// SPDX-License-Identifier: Apache-2.0
// Work in parts: every part is done once, and what goes wrong in one is told when all are done.
#include "core/base/parts.hpp"

#include <atomic>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "test/catch.hpp"

TEST_CASE("parts_are_each_done_once") {
  for (const size_t count : {0, 1, 2, 1000}) {
    std::vector<int> done(count, 0);
    fk::in_parts(count, [&](size_t i) { ++done[i]; });
    CHECK(done == std::vector<int>(count, 1));
  }
}

TEST_CASE("parts_that_throw_do_not_keep_the_others_from_being_done") {
  std::atomic<int> done = 0;
  CHECK_THROWS_AS(fk::in_parts(50,
                               [&](size_t i) {
                                 if (i == 7) throw std::runtime_error("seven");
                                 ++done;
                               }),
                  std::runtime_error);
  CHECK(done == 49);
}
