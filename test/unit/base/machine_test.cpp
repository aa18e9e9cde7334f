// SPDX-License-Identifier: Apache-2.0
// Names of the machine and the program are there and stay the same.
#include "core/base/machine.hpp"

#include "test/catch.hpp"

using namespace fk;

TEST_CASE("the program knows its build and the machine its parts") {
  const std::string id = own_build_id();
  CHECK(id.size() >= 16);
  CHECK(id.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(own_build_id() == id);
  CHECK_FALSE(processor_name().empty());
  CHECK_THAT(kernel_name(), ContainsSubstring("Linux "));
}

TEST_CASE("devices have an identity without being opened") {
  const auto cpu = device_identity("cpu");
  CHECK_THAT(cpu.device, ContainsSubstring(processor_name()));
  CHECK(cpu.driver == kernel_name());
  const auto first = device_identity("cuda:0"), second = device_identity("cuda:1");
  CHECK(first.device != second.device);
  CHECK_FALSE(first.driver.empty());
}
