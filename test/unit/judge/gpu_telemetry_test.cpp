// SPDX-License-Identifier: Apache-2.0
// The judge's use of a GPU's clocks, and of the driver's reasons for them. There is no GPU here, so
// the readings are invented.
#include "core/judge/gpu_telemetry.hpp"

#include <chrono>
#include <functional>
#include <thread>

#include "core/measure/race_clock.hpp"
#include "test/catch.hpp"

using namespace fk;

namespace {

constexpr uint64_t kPowerCap = 0x4, kThermal = 0x20;

// A device whose reasons are a function of how often it was looked at.
class FakeWatch final : public GpuTelemetry {
 public:
  explicit FakeWatch(std::function<uint64_t(int)> reasons) : reasons_(std::move(reasons)) {}
  void look() override { last_ = ClockLook{1980, 3201, reasons_(looks_++)}; }
  std::optional<ClockWatch> seen() const override { return std::nullopt; }
  std::optional<ClockLook> last() const override { return last_; }
  void listen() override {}
  std::string stopped() override { return ""; }
  std::optional<int64_t> used_bytes() const override { return std::nullopt; }
  std::vector<GpuProcess> processes() const override { return {}; }
  bool slow() const { return last_ && is_throttled(last_->reasons); }

 private:
  std::function<uint64_t(int)> reasons_;
  int looks_ = 0;
  std::optional<ClockLook> last_;
};

// Takes three times as long while the device is slowed down.
class Slowed final : public Contender {
 public:
  Slowed(double seconds, FakeWatch& watch, Throttling& throttling)
      : seconds_(seconds), watch_(watch), throttling_(throttling) {}
  std::optional<double> sample() override {
    throttling_.begin();
    const double seconds = watch_.slow() ? 3 * seconds_ : seconds_;
    // Samples must differ a little.
    jitter_ = jitter_ > 0 ? -1e-5 : 1e-5;
    ++kept_;
    if (!throttling_.end()) return std::nullopt;
    return seconds * (1 + jitter_);
  }
  void forget() override { kept_ -= 2; }
  int kept() const { return kept_; }

 private:
  double seconds_, jitter_ = 1e-5;
  int kept_ = 0;
  FakeWatch& watch_;
  Throttling& throttling_;
};

RaceResult race_of(FakeWatch& watch, Throttling& throttling, int redo_max) {
  Slowed first(2e-3, watch, throttling), second(1e-3, watch, throttling);
  Contender* const contenders[] = {&first, &second};
  RaceOptions options;
  options.seconds = 20;  // never reached: samples take no time
  options.redo_max = redo_max;
  options.blocks_clear = options.blocks_min;
  const RaceResult result = race(contenders, options);
  // Both sides forget repeated samples. One sample comes before the race.
  CHECK(first.kept() == 2 * result.blocks() + 1);
  CHECK(second.kept() == 2 * result.blocks() + 1);
  return result;
}

}  // namespace

TEST_CASE("blocks of a race in which a GPU was slowed down are done again") {
  // Two looks a sample, four samples a block: now and then for a while, and only one side's.
  FakeWatch watch([](int look) { return look % 50 >= 44 ? kPowerCap : uint64_t{0}; });
  Throttling throttling(&watch);
  const RaceResult result = race_of(watch, throttling, 100);
  CHECK(result.blocks() == 10);
  CHECK(result.ratio(1, 0).blocks == 10);
  CHECK(result.redone() > 0);
  CHECK(throttling.dropped() > 0);
  // The first sample of each contender is asked for before the race.
  CHECK(result.timing(0).dropped + result.timing(1).dropped == throttling.dropped());
  CHECK(result.timing(1).high_s < 1.1e-3);
  CHECK(result.ratio(1, 0).value > 1.99);
  CHECK(result.ratio(1, 0).value < 2.01);
  CHECK(throttling.why().empty());
}

TEST_CASE("blocks are not done again for longer than a few times what a race may take") {
  struct Sleeper final : Contender {
    std::optional<double> sample() override {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (++asked_ % 40 > 2) return std::nullopt;
      return 1e-3;
    }
    int asked_ = 0;
  };
  Sleeper first, second;
  Contender* const contenders[] = {&first, &second};
  RaceOptions options;
  options.seconds = 0.01;
  options.redo_max = 200;
  const RaceResult result = race(contenders, options);
  CHECK(result.redone() > 0);
  CHECK(result.redone() < 20);  // of four milliseconds each, and some
}

TEST_CASE("where blocks are not done again, those with a dropped sample are left out") {
  FakeWatch watch([](int look) { return look % 50 >= 44 ? kPowerCap : uint64_t{0}; });
  Throttling throttling(&watch);
  const RaceResult result = race_of(watch, throttling, 0);
  CHECK(result.ratio(1, 0).blocks == 10);
  CHECK(result.blocks() > 10);
  CHECK(result.redone() == 0);
}

TEST_CASE("a GPU that is always slowed down ends the race, and says why nothing is told") {
  FakeWatch watch([](int look) { return look % 2 ? kPowerCap : kThermal | 0x1; });
  Throttling throttling(&watch);
  const RaceResult result = race_of(watch, throttling, 100);
  CHECK(result.blocks() == 10);
  CHECK(throttling.dropped() == 24);
  CHECK(throttling.why().find("the GPU was slowed down (power cap, thermal (software)) in") == 0);
}

TEST_CASE("a sample counts where nobody watches, and where clocks are as their owner set them") {
  Throttling none(nullptr);
  none.begin();
  CHECK(none.end());
  FakeWatch watch([](int) { return uint64_t{0x1 | 0x2 | 0x10}; });
  Throttling set(&watch);
  for (int i = 0; i < 100; ++i) {
    set.begin();
    CHECK(set.end());
  }
  CHECK(set.why().empty());
}

TEST_CASE("reasons of clocks have words, and unknown ones their number") {
  CHECK(throttle_reasons(0).empty());
  CHECK(throttle_reasons(0x4) == "power cap");
  CHECK(throttle_reasons(0x44) == "power cap, thermal (hardware)");
  CHECK(throttle_reasons(0x8000001) == "idle, reason 0x8000000");
  for (const uint64_t slows : {0x4, 0x8, 0x20, 0x40, 0x80}) CHECK(is_throttled(slows | 1));
  for (const uint64_t not_so : {0x0, 0x1, 0x2, 0x10, 0x100}) CHECK_FALSE(is_throttled(not_so));
}

TEST_CASE("looks at a GPU's clocks add up to their range and a share") {
  ClockWatch watch;
  add_look(watch, {1980, 3201, 0});
  add_look(watch, {1500, 3201, 0x4});
  add_look(watch, {1600, 2619, 0x24});
  add_look(watch, {1980, 3201, 0x1});
  CHECK(watch.looks == 4);
  CHECK(watch.sm_mhz_low == 1500);
  CHECK(watch.sm_mhz_high == 1980);
  CHECK(watch.memory_mhz_low == 2619);
  CHECK(watch.memory_mhz_high == 3201);
  CHECK(watch.throttled == 0.5);
  CHECK(watch.reasons == "power cap, thermal (software), idle");
}

TEST_CASE("the CPU has no clocks to be watched") { CHECK_FALSE(GpuTelemetry::of("cpu")); }

// A container may have other numbers for its processes, or be told of none.
TEST_CASE("memory of processes is known where the driver tells of each of them") {
  const std::vector<GpuProcess> all = {{7, 100}, {8, 20}, {9, std::nullopt}};
  CHECK(bytes_of(all, {7}) == 100);
  CHECK(bytes_of(all, {8, 7}) == 120);
  CHECK_FALSE(bytes_of(all, {7, 9}));
  CHECK_FALSE(bytes_of(all, {7, 6}));
  CHECK_FALSE(bytes_of({}, {7}));
}
