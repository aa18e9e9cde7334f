// SPDX-License-Identifier: Apache-2.0
// After an upload the device has what the host wrote, whatever changed before, and small inputs
// take one copy together.
#include "core/exec/input_memory.hpp"

#include <cstdlib>
#include <cstring>

#include "core/tensor/random.hpp"
#include "test/catch.hpp"

namespace {

// Memory of its own in the host's, and the copies are counted.
class Remote final : public fk::Device {
 public:
  int32_t type() const override { return FK_CUDA; }
  int32_t id() const override { return 0; }
  std::string name() const override { return "remote"; }
  void* allocate(int64_t bytes, const std::string&) override {
    return std::aligned_alloc(256, (static_cast<size_t>(bytes) + 256) / 256 * 256);
  }
  void release(void* memory) override { std::free(memory); }
  void upload(void* device, const void* host, int64_t bytes) override {
    ++copies;
    std::memcpy(device, host, static_cast<size_t>(bytes));
  }
  void download(void* host, const void* device, int64_t bytes) override {
    std::memcpy(host, device, static_cast<size_t>(bytes));
  }
  void* allocate_host(int64_t bytes) override { return allocate(bytes, ""); }
  void release_host(void* memory) override { release(memory); }
  void upload_later(void* device, const void* host, int64_t bytes) override {
    upload(device, host, bytes);
  }
  void fill_zero(void* device, int64_t bytes) override {
    std::memset(device, 0, static_cast<size_t>(bytes));
  }
  void copy(void*, const void*, int64_t) override {}
  Shared allocate_shared(int64_t, const std::string&, Sharing) override { return {}; }
  void* open_shared(int, int64_t, Sharing) override { return nullptr; }
  void close_shared(void*, int64_t) override {}
  std::unique_ptr<fk::Stopwatch> stopwatch() override { return nullptr; }
  void synchronize() override {}
  void* stream() override { return nullptr; }
  int32_t cpu_threads() const override { return 1; }
  int copies = 0;
};

const std::vector<fk::InputMemory::Part> kParts = {
    {"ids", 2048},       {"lengths", 300},
    {"nothing", 0},      {"tables", int64_t{1} << 19},
    {"positions", 4096}, {"huge", (int64_t{1} << 20) + 8}};

bool equal(fk::InputMemory& memory, int part, int64_t bytes) {
  return std::memcmp(memory.host(part), memory.device(part), static_cast<size_t>(bytes)) == 0;
}

}  // namespace

TEST_CASE("input_memory_has_on_the_device_what_the_host_wrote") {
  Remote device;
  fk::InputMemory memory(device, kParts);
  fk::Random random(7);
  for (int step = 0; step < 300; ++step) {
    std::vector<int64_t> bytes;
    for (size_t i = 0; i < kParts.size(); ++i) {
      bytes.push_back(random.integer(0, kParts[i].bytes + 1));
      // Only two values, so that earlier values come back; also beyond the uploaded bytes.
      const int64_t count = random.integer(0, kParts[i].bytes + 1);
      if (random.uniform() < 0.5)
        std::memset(memory.host(static_cast<int>(i)), static_cast<int>(random.integer(1, 3)),
                    static_cast<size_t>(count));
    }
    memory.upload(bytes);
    for (size_t i = 0; i < kParts.size(); ++i) {
      INFO("step " << step << ", " << kParts[i].name);
      REQUIRE(equal(memory, static_cast<int>(i), bytes[i]));
    }
  }
}

TEST_CASE("input_memory_uploads_small_inputs_together_and_nothing_twice") {
  Remote device;
  fk::InputMemory memory(device, kParts);
  CHECK(memory.find("positions") == 4);
  CHECK(memory.find("position") == -1);
  const std::vector<int64_t> few = {8, 8, 0, 8, 8, 0};
  const auto copies = [&] {
    device.copies = 0;
    memory.upload(few);
    return device.copies;
  };
  CHECK(copies() == 0);
  for (const int part : {0, 1, 4}) *memory.host(part) = std::byte{1};
  CHECK(copies() == 1);
  CHECK(copies() == 0);
  *memory.host(3) = std::byte{1};
  CHECK(copies() == 1);
  CHECK(copies() == 0);
  // The host does not know bytes which others have written.
  *memory.device(1) = std::byte{9};
  memory.overwritten(1);
  CHECK(copies() == 1);
  CHECK(*memory.device(1) == std::byte{1});
  CHECK(copies() == 0);
}
