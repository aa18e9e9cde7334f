// SPDX-License-Identifier: Apache-2.0
// Findings about forward() on a held stream, and about memory which is not freed. The device is
// this test's own, and its stream is a list of functions. There is no GPU here.
#include "core/check/device_conformance.hpp"

#include <cstring>
#include <deque>

#include "core/base/clock.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

class ListDevice final : public Device {
 public:
  using Work = std::function<void()>;
  std::deque<Work> queue, beside;  // of the stream, and of another one
  int64_t lost = 0;
  double held_until = 0;

  int32_t type() const override { return FK_CUDA; }
  int32_t id() const override { return 0; }
  std::string name() const override { return "a list"; }
  void* allocate(int64_t, const std::string&) override { return nullptr; }
  void release(void*) override {}
  void upload(void* to, const void* from, int64_t n) override { download(to, from, n); }
  void download(void* to, const void* from, int64_t n) override {
    synchronize();
    std::memcpy(to, from, static_cast<size_t>(n));
  }
  void* allocate_host(int64_t) override { return nullptr; }
  void release_host(void*) override {}
  void upload_later(void*, const void*, int64_t) override {}
  void fill_zero(void*, int64_t) override {}
  void copy(void*, const void*, int64_t) override {}
  void synchronize() override {
    while (now_seconds() < held_until) continue;
    for (; !queue.empty(); queue.pop_front()) queue.front()();
  }
  void synchronize_all() override {
    synchronize();
    for (; !beside.empty(); beside.pop_front()) beside.front()();
  }
  void* stream() override { return nullptr; }
  int32_t cpu_threads() const override { return 1; }
  std::unique_ptr<Stopwatch> stopwatch() override { return nullptr; }
  Shared allocate_shared(int64_t, const std::string&, Sharing) override { return {}; }
  void* open_shared(int, int64_t, Sharing) override { return nullptr; }
  void close_shared(void*, int64_t) override {}
  std::optional<int64_t> free_bytes() override { return (int64_t{1} << 30) - lost; }
  bool hold(double most_s) override {
    held_until = now_seconds() + most_s;
    return true;
  }
  void let_go() override { held_until = 0; }
  // Work of other streams goes on while this one is held.
  void peek(void* to, const void* from, int64_t n) override {
    for (; runs_beside && !beside.empty(); beside.pop_front()) beside.front()();
    std::memcpy(to, from, static_cast<size_t>(n));
  }
  bool runs_beside = false;
};

struct Held {
  ListDevice device;
  std::byte out[16] = {};
  int calls = 0;
  ConformanceFault ask(const std::function<void()>& forward) {
    return stream_fault(
        device, {out}, [&] { std::memset(out, 0xff, sizeof out); },
        [&] {
          ++calls;
          forward();
        });
  }
  ListDevice::Work answer() {
    return [this] { std::memset(out, 7, sizeof out); };
  }
};

}  // namespace

TEST_CASE("who enqueues on its stream and nothing else is not blamed") {
  Held held;
  const ConformanceFault found = held.ask([&] { held.device.queue.push_back(held.answer()); });
  CHECK(found.rule.empty());
  CHECK(held.calls == 2);
  CHECK(held.device.held_until == 0);
}

TEST_CASE("work that does not wait for the stream is found while that is held") {
  Held held;
  held.device.runs_beside = true;
  const ConformanceFault found = held.ask([&] { held.device.beside.push_back(held.answer()); });
  CHECK(found.rule == "stream");
  CHECK(found.text.find("another stream") != std::string::npos);
  CHECK(held.device.held_until == 0);
}

TEST_CASE("work that goes on after the stream has ended is found") {
  Held held;
  const ConformanceFault found = held.ask(
      [&] { held.device.queue.push_back([&] { held.device.beside.push_back(held.answer()); }); });
  CHECK(found.rule == "stream");
  CHECK(found.text.find("goes on") != std::string::npos);
}

TEST_CASE("who waits for the stream is blamed when it does so every time") {
  Held always;
  CHECK(always
            .ask([&] {
              always.device.queue.push_back(always.answer());
              always.device.synchronize();
            })
            .rule == "waits");
  CHECK(always.calls == 4);
  Held once;
  const ConformanceFault found = once.ask([&] {
    once.device.queue.push_back(once.answer());
    if (once.calls == 2) once.device.synchronize();
  });
  CHECK(found.rule.empty());
  CHECK(once.calls == 3);
}

TEST_CASE("a call that fails while the stream is held lets it go") {
  Held held;
  CHECK_THROWS(held.ask([&] {
    if (held.calls == 2) throw 1;
  }));
  CHECK(held.device.held_until == 0);
}

TEST_CASE("memory of the device that does not come back is a leak when it is so every round") {
  ListDevice device;
  CHECK(device_leak(
            device, [] {}, "calls")
            .rule.empty());
  const ConformanceFault found = device_leak(
      device, [&] { device.lost += 1 << 20; }, "calls");
  CHECK(found.rule == "leak");
  CHECK(found.text == "calls: the device loses about 1.0 MiB each time");
  int cycles = 0;  // what a library takes once, or somebody else
  CHECK(device_leak(
            device, [&] { device.lost += ++cycles < 30 ? 1 << 20 : 0; }, "calls")
            .rule.empty());
  CHECK(device_leak(
            device, [&] { device.lost += 1 << 10; }, "calls")
            .rule.empty());
  // Three rounds in which others take something, each another amount; then none of them does.
  cycles = 0;
  CHECK(device_leak(
            device, [&] { device.lost += ++cycles <= 52 ? int64_t{cycles} << 20 : 0; }, "calls")
            .rule.empty());
  cycles = 0;  // unequal for so long that it is its own
  CHECK(device_leak(
            device, [&] { device.lost += int64_t{++cycles} << 20; }, "calls")
            .rule == "leak");
}

TEST_CASE(
    "of several ranks all go on as long as one of them loses memory, and that one is blamed") {
  ListDevice device;
  int cycles = 0;
  const auto cycle = [&] { ++cycles; };
  CHECK(device_leak(device, cycle, "calls", [](bool) { return true; }).rule.empty());
  const int all_rounds = cycles;
  cycles = 0;
  CHECK(device_leak(device, cycle, "calls").rule.empty());
  CHECK(cycles < all_rounds);
  cycles = 0;
  const auto losing = [&] {
    ++cycles;
    device.lost += int64_t{1} << 20;
  };
  CHECK(device_leak(device, losing, "calls", [](bool) { return true; }).rule == "leak");
  CHECK(cycles == all_rounds);
}
