// SPDX-License-Identifier: Apache-2.0
// Weights filled through a device are those of the host, in their places, however many are read
// ahead; what a read fails with arrives.
#include <unistd.h>

#include <cstring>

#include "core/base/error.hpp"
#include "core/device/device.hpp"
#include "core/exec/weights.hpp"
#include "test/catch.hpp"

namespace {

fk::WeightSpec weight(const std::string& name, fk::DType dtype, std::vector<int64_t> shape) {
  fk::WeightSpec spec;
  spec.name = name;
  spec.dtype = dtype;
  spec.shape = std::move(shape);
  return spec;
}

}  // namespace

TEST_CASE("device_weights_are_the_hosts_however_many_are_read_ahead") {
  fk::WeightTable table;
  for (int i = 0; i < 9; ++i) {
    const std::string n = std::to_string(i);
    table.add(weight("single" + n, fk::DType::f32, {3 + i, 257}));
    table.add(weight("brain" + n, fk::DType::bf16, {5, 31 + i}));
    table.add(weight("whole" + n, fk::DType::u8, {64, 3}));
    auto computed = weight("computed" + n, fk::DType::bf16, {2});
    computed.compute = [i] { return std::vector<double>{1.0 * i, -1}; };
    table.add(computed);
  }
  const fk::WeightLayout layout(table);
  const auto size = static_cast<size_t>(layout.bytes);
  const auto cpu = fk::open_device("cpu");
  std::vector<std::byte> want(size), got(size);
  fk::fill_weights(table, nullptr, 3, want.data(), 1, {});
  for (const int threads : {1, 2, 64}) {
    std::fill(got.begin(), got.end(), std::byte{0});
    int64_t last = 0;
    fk::fill_weights(table, nullptr, 3, *cpu, got.data(), threads,
                     [&](int64_t done, int64_t total) {
                       CHECK(done > last);
                       CHECK(total == layout.bytes);
                       last = done;
                     });
    CHECK(last == layout.bytes);
    INFO(threads << " threads");
    CHECK(std::memcmp(want.data(), got.data(), size) == 0);
  }
}

TEST_CASE("device_weights_that_cannot_be_read_name_the_tensor") {
  const auto path =
      std::filesystem::temp_directory_path() / ("fk_device_weights_" + std::to_string(::getpid()));
  std::filesystem::create_directories(path);
  const fk::Tensor there = fk::Tensor::of(fk::DType::f32, {2}, {0, 1});
  fk::write_safetensors(path / "model.safetensors", {{"there", there}});
  const auto checkpoint = fk::Checkpoint::open(path);
  fk::WeightTable table;
  for (const char* name : {"there", "gone", "gone_too"})
    table.add(weight(name, fk::DType::f32, {2}));
  std::vector<std::byte> block(static_cast<size_t>(fk::WeightLayout(table).bytes));
  const auto cpu = fk::open_device("cpu");
  std::string text;
  try {
    fk::fill_weights(table, &checkpoint, 3, *cpu, block.data(), 2, {});
  } catch (const fk::Error& e) {
    text = e.what();
  }
  CHECK(text.find("gone") != std::string::npos);
  CHECK(text.find("gone_too") == std::string::npos);
  std::filesystem::remove_all(path);
}
