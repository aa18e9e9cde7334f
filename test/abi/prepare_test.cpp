// SPDX-License-Identifier: Apache-2.0
// prepare() gets the device's stream, and may use streams of its own. The host's own enqueued work
// is done before, so it cannot overwrite the writes of prepare(). Work that prepare() begins on any
// stream is done afterwards. The device is the CPU with streams that are lists.
#include <cstring>
#include <functional>
#include <vector>

#include "test/abi/frozen.hpp"
#include "test/abi/over_cpu.hpp"
#include "test/catch.hpp"

namespace {

class Late final : public OverCpu {
 public:
  void upload(void* to, const void* from, int64_t n) override {
    std::vector<std::byte> kept(static_cast<const std::byte*>(from),
                                static_cast<const std::byte*>(from) + n);
    queue_.push_back([=, this] { OverCpu::upload(to, kept.data(), n); });
  }
  void download(void* to, const void* from, int64_t n) override {
    synchronize();
    OverCpu::download(to, from, n);
  }
  void fill_zero(void* to, int64_t n) override {
    queue_.push_back([=, this] { OverCpu::fill_zero(to, n); });
  }
  void synchronize() override {
    for (const auto& work : std::exchange(queue_, {})) work();
  }
  void synchronize_all() override {
    synchronize();
    for (const auto& work : std::exchange(beside, {})) work();
  }
  void* stream() override { return &queue_; }
  static inline std::vector<std::function<void()>> beside;  // of a stream of the plugin's

 private:
  std::vector<std::function<void()>> queue_;
};

constexpr int kWritten = 42, kLater = 43;
int32_t (*prepare_of_plugin)(void*, const void*, const fk_memory*, fk_error*);
fk_memory given;

int32_t prepare(void* self, const void* max, const fk_memory* memory, fk_error* error) {
  given = *memory;
  std::memcpy(memory->persistent, &kWritten, sizeof kWritten);
  Late::beside.push_back(
      [] { std::memcpy(static_cast<int*>(given.persistent) + 1, &kLater, sizeof kLater); });
  return prepare_of_plugin(self, max, memory, error);
}

}  // namespace

TEST_CASE("what prepare() writes stays, and what it has begun is waited for") {
#ifndef __x86_64__
  SUCCEED("the frozen binary is for x86-64");
  return;
#endif
  const FrozenSilu frozen;
  fk::Provider provider = frozen.provider();
  fk_op op = *provider.op;
  prepare_of_plugin = std::exchange(op.prepare, prepare);
  provider.op = &op;
  Late device;
  const fk::CaseFrames frames(device, frozen.resolved, frozen.values, {});
  fk::Support support = fk::Instance::supports(provider, frames.meta());
  REQUIRE(support.ok);
  support.need.persistent = 64;
  fk::PackedCache packed;
  fk::GuardDevice guarded(device, 0, 1);
  for (fk::Device* of : {static_cast<fk::Device*>(&device), static_cast<fk::Device*>(&guarded)}) {
    const fk::Instance instance(provider, frames.prepare_frames(), support.need,
                                {*of, packed, nullptr, [](int, const std::string&) {}});
    device.synchronize();
    REQUIRE(FK_HAS(&given, fk_memory, stream));
    CHECK(given.stream == device.stream());
    int now[3] = {};
    std::memcpy(now, given.persistent, sizeof now);
    CHECK(now[0] == kWritten);
    CHECK(now[1] == kLater);
    CHECK(now[2] == 0);
  }
}
