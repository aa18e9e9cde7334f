// SPDX-License-Identifier: Apache-2.0
// The numbers in a text of progress, and the bar that they draw.
#include "core/report/progress.hpp"

#include "test/catch.hpp"

using namespace fk;

TEST_CASE("progress_reads_the_last_part_of_a_text") {
  CHECK(part_of("add, case full1: values (3 of 12) (2.0 s)") == std::pair<int64_t, int64_t>(3, 12));
  CHECK(part_of("process (1 of 2), round (2 of 5)") == std::pair<int64_t, int64_t>(2, 5));
  for (const char* text :
       {"", "decode 3 requests", "(3 of )", "(4 of 3)", "(0 of 3)", "(3 of 12", "("})
    CHECK(!part_of(text));
}

TEST_CASE("progress_bar_fills_with_finished_parts") {
  CHECK(progress_bar(1, 12) == "[          ]");
  CHECK(progress_bar(7, 12) == "[#####     ]");
  CHECK(progress_bar(12, 12) == "[######### ]");
}
