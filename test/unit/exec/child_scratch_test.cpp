// SPDX-License-Identifier: Apache-2.0
// Scratch that children of many instances have in common.
#include "core/plugin/instance.hpp"
#include "test/catch.hpp"

using namespace fk;

TEST_CASE("children at one place share their scratch, children at different places do not") {
  const auto device = open_device("cpu");
  ChildScratch scratch;
  const auto first = scratch.get(*device, "/0", 1000), again = scratch.get(*device, "/0", 600),
             beside = scratch.get(*device, "/1", 600), below = scratch.get(*device, "/0/0", 600);
  CHECK(first->data() == again->data());
  CHECK(first->data() != beside->data());
  CHECK(first->data() != below->data());
  CHECK(scratch.bytes() == 2200);
  const auto larger = scratch.get(*device, "/0", 2000);
  CHECK(larger->bytes() == 2000);
  CHECK(larger->data() != first->data());
  CHECK(scratch.get(*device, "/0", 1500)->data() == larger->data());
  CHECK(scratch.bytes() == 4200);
}
