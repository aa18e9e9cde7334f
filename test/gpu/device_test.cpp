// SPDX-License-Identifier: Apache-2.0
// The host's use of a GPU beyond the interface, which test/backend/device_suite.cpp tries.
#include <algorithm>
#include <vector>

#include "core/device/device.hpp"
#include "core/device/rank_device.hpp"
#include "core/exec/weights.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

using fk::DType;

TEST_CASE("device_of_the_first_rank_has_the_name_that_later_ones_come_round_to") {
  const auto names = fk::device_names();
  const auto count = static_cast<int>(std::count_if(
      names.begin(), names.end(), [](const auto& name) { return name.rfind("cuda", 0) == 0; }));
  REQUIRE(count > 0);
  CHECK(fk::device_of_rank("cuda", 0) == "cuda:0");
  CHECK(fk::device_of_rank("cuda", count) == "cuda:0");
  CHECK_FALSE(fk::ranks_share_devices("cuda", count));
  CHECK(fk::ranks_share_devices("cuda", count + 1));
}

TEST_CASE("device_cuts_weights_as_the_host_does") {
  const auto device = fk::open_device("cuda:0");
  fk::WeightTable table;
  fk::WeightSpec spec;
  spec.dtype = DType::bf16;
  spec.shape = {300, 200};
  spec.name = "rows";
  spec.cuts = {{0, {{100, 60, 150}, {250, 60, 300}}}};  // both pieces end early
  table.add(spec);
  spec.name = "columns";
  spec.cuts = {{1, {{64, 64, 200}}}};
  table.add(spec);
  spec.name = "larger";
  spec.shape = {4, 500, 70};
  spec.cuts = {{2, {{60, 20, 70}}}};
  table.add(spec);
  spec.name = "both";
  spec.cuts = {{0, {{1, 2, 4}}}, {2, {{0, 35, 70}}}};
  table.add(spec);
  const int64_t bytes = fk::WeightLayout(table).bytes;
  std::vector<std::byte> wanted(static_cast<size_t>(bytes)), got(static_cast<size_t>(bytes));
  fk::fill_weights(table, nullptr, 3, wanted.data(), 2, {});
  const fk::DeviceMemory memory(*device, bytes, "a test");
  device->fill_zero(memory.data(), bytes);
  fk::fill_weights(table, nullptr, 3, *device, memory.data(), 2, {});
  device->download(got.data(), memory.data(), bytes);
  CHECK(got == wanted);
}
