// SPDX-License-Identifier: Apache-2.0
// If this fails, a scale of mxfp4 is read as another number than OCP Microscaling Formats 1.0 has.
#include "baselines/reference/mxfp4.hpp"

#include "test/catch.hpp"

TEST_CASE("mxfp4_scales_are_powers_of_two_and_255_is_nan") {
  using fk::reference::e8m0;
  CHECK(e8m0(0) == 0x1p-127);
  CHECK(e8m0(127) == 1);
  CHECK(e8m0(254) == 0x1p127);
  CHECK(std::isnan(e8m0(255)));
}
