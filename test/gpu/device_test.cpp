// SPDX-License-Identifier: Apache-2.0
// What the host itself does on a GPU. If this fails, weights differ between a CPU and a GPU, or a
// change of shared weights goes unseen.
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "core/device/device.hpp"
#include "core/device/rank_device.hpp"
#include "core/exec/weights.hpp"
#include "core/tensor/random.hpp"
#include "test/catch.hpp"

using fk::DType;

TEST_CASE("device_makes_the_random_numbers_of_the_cpu") {
  const auto device = fk::open_device("cuda:0");
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const int64_t count : {1, 5, 4096, 1000003}) {
      const int64_t bytes = count * fk::bytes(dtype);
      const fk::DeviceMemory memory(*device, bytes, "a test");
      std::vector<std::byte> wanted(static_cast<size_t>(bytes)), got(static_cast<size_t>(bytes));
      fk::fill_normal(wanted.data(), dtype, count, 77, 0, 0.25, 1.5);
      REQUIRE(device->fill_normal(memory.data(), dtype, count, 77, 0.25, 1.5));
      device->download(got.data(), memory.data(), bytes);
      CHECK(got == wanted);
    }
  }
  const fk::DeviceMemory memory(*device, 256, "a test");
  CHECK_FALSE(device->fill_normal(memory.data(), DType::f8e4m3, 4, 1, 0, 1));
}

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

TEST_CASE("device_memory_is_shared_by_a_descriptor") {
  const auto device = fk::open_device("cuda:0");
  const int64_t bytes = (int64_t{3} << 20) + 512;
  const fk::Device::Shared shared =
      device->allocate_shared(bytes, "a test", fk::Device::Sharing::read);
  REQUIRE(device->fill_normal(shared.data, DType::f32, bytes / 4, 5, 0, 1));
  const void* other = device->open_shared(shared.fd, bytes, fk::Device::Sharing::read);
  ::close(shared.fd);
  CHECK(other != shared.data);
  std::vector<std::byte> here(static_cast<size_t>(bytes)), there(static_cast<size_t>(bytes));
  device->download(here.data(), shared.data, bytes);
  device->download(there.data(), other, bytes);
  CHECK(here == there);
  const uint64_t sum = device->checksum(other, bytes);
  CHECK(sum == device->checksum(shared.data, bytes));
  // One bit of the last word, then two words exchanged.
  std::vector<std::byte> changed = here;
  changed.back() ^= std::byte{1};
  device->upload(shared.data, changed.data(), bytes);
  CHECK(device->checksum(other, bytes) != sum);
  changed = here;
  std::swap_ranges(changed.begin(), changed.begin() + 8, changed.begin() + 8);
  device->upload(shared.data, changed.data(), bytes);
  CHECK(device->checksum(other, bytes) != sum);
  device->upload(shared.data, here.data(), bytes);
  CHECK(device->checksum(other, bytes) == sum);
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

TEST_CASE("device_gathers_copies_and_fills_that_whoever_asks_next_finds_done") {
  const auto device = fk::open_device("cuda:0");
  constexpr int64_t kEach = 512, kParts = 200;
  constexpr int64_t kAll = kEach * kParts;
  auto* const from = static_cast<std::byte*>(device->allocate(kAll, "from"));
  auto* const to = static_cast<std::byte*>(device->allocate(kAll, "to"));
  std::vector<std::byte> given(kAll), want(kAll), got(kAll);
  for (size_t i = 0; i < given.size(); ++i) given[i] = static_cast<std::byte>(i * 7 % 251);
  device->upload(from, given.data(), kAll);
  for (const bool on : {false, true}) {
    device->fill_zero(to, kAll);
    device->gather(on);
    for (int64_t part = 0; part < kParts; ++part) {
      std::byte* const at = to + part * kEach;
      const int64_t bytes = kEach - part % 19;  // words that are not whole, too
      if (part % 3 == 0)
        device->copy(at, from + part * kEach, bytes);
      else
        CHECK(device->fill_bits(at, bytes, part % 3 == 1));
    }
    device->download((on ? got : want).data(), to, kAll);  // while it is on
    device->gather(false);
  }
  CHECK(got == want);
  CHECK(std::equal(want.begin(), want.begin() + kEach, given.begin()));
  // What was gathered is in the order of what comes after it.
  device->gather(true);
  device->copy(to, from, kEach);
  device->fill_zero(to, kEach);
  device->gather(false);
  device->download(got.data(), to, kEach);
  CHECK(std::count(got.begin(), got.begin() + kEach, std::byte{0}) == kEach);
  device->release(from);
  device->release(to);
}

TEST_CASE("device_has_addresses_of_which_only_parts_have_memory") {
  const auto device = fk::open_device("cuda:0");
  const int64_t far = (int64_t{5} << 32) + 4096, bytes = far + 64, mine = 32 << 20;
  const auto free = [&] { return device->free_bytes().value(); };
  const int64_t before = free();
  const std::vector<fk::HeldPart> parts = {{64, 64}, {4096, 64}, {far, 64}};
  auto* const memory = static_cast<std::byte*>(device->allocate_parts(bytes, parts, "a test"));
  CHECK(before - free() < mine);
  std::vector<std::byte> got(64);
  for (size_t i = 0; i < parts.size(); ++i)
    device->upload(memory + parts[i].at, std::vector<std::byte>(64, std::byte(i)).data(), 64);
  for (size_t i = 0; i < parts.size(); ++i) {
    device->download(got.data(), memory + parts[i].at, 64);
    CHECK(got == std::vector<std::byte>(64, std::byte(i)));
  }
  device->release(memory);
  CHECK(before - free() < mine / 4);
}

TEST_CASE("device_has_the_checksums_of_the_cpu") {
  const auto device = fk::open_device("cuda:0");
  const int64_t bytes = (int64_t{1} << 20) + 256 + 24;
  const fk::DeviceMemory memory(*device, bytes, "a test");
  REQUIRE(device->fill_bits(memory.data(), bytes, true));
  std::vector<std::byte> here(static_cast<size_t>(bytes));
  device->download(here.data(), memory.data(), bytes);
  std::vector<std::span<const std::byte>> there, copies;
  const std::pair<size_t, size_t> parts[] = {
      {0, 1}, {3, 5}, {8, 64}, {1, 4097}, {0, 0}, {256, size_t{1} << 20}, {7, size_t{1} << 19}};
  for (const auto& [at, size] : parts) {
    there.emplace_back(memory.data() + at, size);
    copies.emplace_back(here.data() + at, size);
  }
  const auto sums = device->checksums(there);
  for (size_t i = 0; i < sums.size(); ++i) CHECK(sums[i] == fk::checksum_of(copies[i]));
  CHECK(device->checksum(memory.data(), bytes) == fk::checksum_of(here));
  REQUIRE(device->fill_bits(memory.data(), bytes, false));
  device->download(here.data(), memory.data(), bytes);
  CHECK(std::all_of(here.begin(), here.end(), [](std::byte b) { return b == std::byte{0xff}; }));
}
