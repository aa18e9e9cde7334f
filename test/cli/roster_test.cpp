// SPDX-License-Identifier: Apache-2.0
// Which baselines a judge has on a device, by what their notes say of device code.
#include "core/referee/roster.hpp"

#include <algorithm>
#include <cstdlib>

#include "test/catch.hpp"

namespace {

std::vector<std::string> names_on(const std::string& device, const char* plugins) {
  ::setenv("FK_PLUGIN_PATH", plugins, 1);
  const auto names = fk::Roster::of_baselines(device).ranked();
  ::unsetenv("FK_PLUGIN_PATH");
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::count(names.begin(), names.end(), name) > 0;
}

}  // namespace

TEST_CASE("a judge on the CPU leaves out baselines with device code") {
  CHECK(has(names_on("cuda:0", FK_DEVICE_CODE), "device_code"));
  CHECK_FALSE(has(names_on("cpu", FK_DEVICE_CODE), "device_code"));
}

TEST_CASE("the notes of our own providers tell those for GPUs from those for the CPU") {
  const auto on_cpu = names_on("cpu", FK_PLUGINS), on_gpu = names_on("cuda:0", FK_PLUGINS);
  CHECK(has(on_cpu, "reference"));
  for (const auto& name : on_gpu) {
    INFO(name);
    CHECK(has(on_cpu, name) == (name == "reference" || name == "cpu"));
  }
}
