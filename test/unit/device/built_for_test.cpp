// SPDX-License-Identifier: Apache-2.0
// Which GPU runs what was built. If these fail, a GPU that could work is refused, or one that
// cannot fails in its first kernel.
#include "core/device/built_for.hpp"

#include "test/catch.hpp"

TEST_CASE("built_for_says_which_gpu_runs_the_code") {
  const auto runs = [](const char* built, int major, int minor) {
    return fk::built_for_refusal(built, major, minor).empty();
  };
  // This project is built for an H100 and an H200, and for neither an A100 nor a B200.
  CHECK(runs("90a", 9, 0));
  for (const auto& [major, minor] : {std::pair(8, 0), {8, 9}, {10, 0}, {12, 0}}) {
    CHECK_FALSE(runs("90a", major, minor));
    CHECK(runs("native", major, minor));
  }
  CHECK(runs("80 90a", 8, 0));
  CHECK(runs("80", 9, 0));  // by its PTX
  CHECK(runs("80-virtual", 10, 0));
  CHECK(runs("80-real", 8, 9));
  CHECK_FALSE(runs("80-real", 9, 0));
  CHECK_FALSE(runs("89", 8, 0));
  CHECK(runs("100f", 10, 3));
  CHECK_FALSE(runs("100f", 12, 0));
  CHECK_THAT(fk::built_for_refusal("90a", 8, 0),
             ContainsSubstring("compute capability 8.0") && ContainsSubstring("for 90a alone"));
}
