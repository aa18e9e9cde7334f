// SPDX-License-Identifier: Apache-2.0
// How samples are taken, on a device that only writes down what it is asked for.
#include "core/measure/sampler.hpp"

#include <cstdlib>
#include <map>
#include <set>

#include "test/catch.hpp"

namespace {

// The events in order: "flush", "start", "stop", "copy", "graph 3".
struct Log {
  std::vector<std::string> said;
  std::vector<bool> late;  // of the coming samples; then in time
  size_t sample = 0;
};

class FakeStopwatch final : public fk::Stopwatch {
 public:
  explicit FakeStopwatch(Log& log) : log_(log) {}
  void flush() override { log_.said.push_back("flush"); }
  void start() override { log_.said.push_back("start"); }
  void stop() override {
    log_.said.push_back("stop");
    late_ = log_.sample < log_.late.size() && log_.late[log_.sample];
    ++log_.sample;
  }
  double seconds() override { return 12e-6; }
  bool late() const override { return late_; }

 private:
  Log& log_;
  bool late_ = false;
};

class FakeDevice final : public fk::Device {
 public:
  explicit FakeDevice(Log& log) : log_(log) {}
  int32_t type() const override { return FK_CUDA; }
  int32_t id() const override { return 0; }
  std::string name() const override { return "mutant"; }
  void* allocate(int64_t bytes, const std::string&) override {
    return std::aligned_alloc(256, (static_cast<size_t>(bytes) + 255) / 256 * 256);
  }
  void release(void* memory) override { std::free(memory); }
  void upload(void*, const void*, int64_t) override {}
  void download(void*, const void*, int64_t) override {}
  void* allocate_host(int64_t bytes) override { return allocate(bytes, ""); }
  void release_host(void* memory) override { release(memory); }
  void upload_later(void*, const void*, int64_t) override {}
  void fill_zero(void*, int64_t) override {}
  void copy(void* to, const void*, int64_t) override {
    if (capturing_)
      captured_.back().push_back(to);
    else
      log_.said.push_back("copy");
  }
  Shared allocate_shared(int64_t, const std::string&, Sharing) override { return {}; }
  void* open_shared(int, int64_t, Sharing) override { return nullptr; }
  void close_shared(void*, int64_t) override {}
  std::unique_ptr<fk::Stopwatch> stopwatch() override {
    return std::make_unique<FakeStopwatch>(log_);
  }
  void synchronize() override {}
  void* stream() override { return nullptr; }
  int32_t cpu_threads() const override { return 1; }
  bool can_capture() const override { return true; }
  void begin_capture() override {
    capturing_ = true;
    captured_.emplace_back();
  }
  std::shared_ptr<void> end_capture() override {
    capturing_ = false;
    return std::make_shared<size_t>(captured_.size() - 1);
  }
  void launch(void* graph) override {
    log_.said.push_back("graph " + std::to_string(*static_cast<size_t*>(graph)));
  }
  const std::vector<std::vector<void*>>& captured() const { return captured_; }

 private:
  Log& log_;
  bool capturing_ = false;
  std::vector<std::vector<void*>> captured_;  // what each graph writes to
};

}  // namespace

TEST_CASE("sampler_flushes_before_it_starts_the_watch") {
  Log log;
  FakeDevice device(log);
  const auto watch = device.stopwatch();
  fk::CopySampler sampler(device, *watch, 8, 4096, 1, 1);
  sampler.set_calls(1);
  CHECK(sampler.sample() == 12e-6);
  REQUIRE(log.said.size() == 4);
  CHECK(log.said[0] == "flush");
  CHECK(log.said[1] == "start");
  CHECK(log.said[2].starts_with("graph "));
  CHECK(log.said[3] == "stop");
}

TEST_CASE("sampler_replays_a_graph_per_set_in_random_order") {
  Log log;
  FakeDevice device(log);
  const auto watch = device.stopwatch();
  fk::CopySampler sampler(device, *watch, 8, 4096, 1, 1);
  sampler.set_calls(1);
  CHECK(device.captured().size() == 8);
  for (int i = 0; i < 400; ++i) sampler.sample();
  std::map<std::string, int> replays;
  std::vector<std::string> order;
  for (const auto& s : log.said)
    if (s.starts_with("graph ")) ++replays[s], order.push_back(s);
  CHECK(replays.size() == 8);
  for (const auto& [graph, count] : replays) CHECK(count > 20);
  int repeated = 0;  // the next one in turn: one in eight when the order is random
  for (size_t i = 8; i < order.size(); ++i) repeated += order[i] == order[i - 8];
  CHECK(repeated < 100);
}

TEST_CASE("sampler_divides_by_the_calls_of_a_graph_which_are_on_different_sets") {
  Log log;
  FakeDevice device(log);
  const auto watch = device.stopwatch();
  fk::CopySampler sampler(device, *watch, 8, 4096, 1, 1);
  sampler.set_calls(4);
  CHECK(sampler.calls() == 4);
  CHECK(sampler.sample() == 3e-6);
  REQUIRE(device.captured().size() == 8);
  for (const auto& graph : device.captured())
    CHECK(std::set<void*>(graph.begin(), graph.end()).size() == 4);
  sampler.set_calls(100);  // not more than there are sets
  CHECK(sampler.calls() == 8);
}

TEST_CASE("sampler_drops_what_waited_for_the_host") {
  Log log;
  FakeDevice device(log);
  const auto watch = device.stopwatch();
  fk::CopySampler sampler(device, *watch, 8, 4096, 1, 1);
  sampler.set_calls(1);
  log.late = {false, true, false};
  CHECK(sampler.sample().has_value());
  CHECK(!sampler.sample().has_value());
  CHECK(sampler.sample().has_value());
  CHECK(!sampler.host_bound());
}

TEST_CASE("sampler_says_that_a_contender_is_host_bound_when_all_samples_are_late") {
  Log log;
  FakeDevice device(log);
  const auto watch = device.stopwatch();
  fk::CopySampler sampler(device, *watch, 8, 4096, 1, 1);
  sampler.set_calls(1);
  log.late.assign(100, true);
  int dropped = 0;
  while (!sampler.sample()) ++dropped;
  CHECK(sampler.host_bound());
  CHECK(dropped >= 10);
  CHECK(dropped <= 50);
}
