// SPDX-License-Identifier: Apache-2.0
#include "core/exec/node_times.hpp"

#include <cmath>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/device/device.hpp"

namespace fk {

void check_times(const NodeTimes& times) {
  for (const TimedStep& step : times.steps) {
    const auto phase = times.phases.find(step.phase);
    if (phase == times.phases.end()) fail("trace", "a step of no phase");
    if (step.ns.size() != 2 * step.nodes.size() || !std::isfinite(step.begin_s))
      fail("trace", "nodes without times");
    int64_t last = 0;
    for (const int64_t ns : step.ns) {
      constexpr int64_t kLongest = int64_t{86400} * 1'000'000'000;
      if (ns < last || ns > kLongest) fail("trace", "times that run backwards");
      last = ns;
    }
    for (const int32_t node : step.nodes)
      if (node < 0 || static_cast<size_t>(node) >= phase->second.size())
        fail("trace", "a step names a node that the phase does not have");
  }
}

struct NodeTimer::Impl {
  struct PhaseTimer final : NodeWatch {
    PhaseTimer(Impl& impl, std::string name) : owner(impl), phase(std::move(name)) {}
    void step() override {
      keeps = owner.steps < owner.steps_max;
      ++owner.steps;
      if (!keeps) return void(++owner.times.left_out);
      owner.device.synchronize_all();
      owner.times.steps.push_back({phase, owner.workload, now_seconds(), {}, {}});
    }
    void before(const Program::NodeInfo& node) override {
      if (!keeps) return;
      auto& nodes = owner.times.phases[phase];
      const auto [it, fresh] = known.try_emplace(&node, static_cast<int32_t>(nodes.size()));
      if (fresh) nodes.push_back({node.path, node.op, node.provider});
      owner.times.steps.back().nodes.push_back(it->second);
      stamp();
    }
    void after(const Program::NodeInfo&) override {
      if (!keeps) return;
      owner.device.synchronize_all();
      stamp();
    }
    void stamp() {
      TimedStep& step = owner.times.steps.back();
      step.ns.push_back(std::llround((now_seconds() - step.begin_s) * 1e9));
    }
    Impl& owner;
    std::string phase;
    bool keeps = false;
    std::map<const Program::NodeInfo*, int32_t> known;
  };

  Impl(Device& d, int64_t most) : device(d), steps_max(most) {}

  Device& device;
  const int64_t steps_max;
  int64_t steps = 0;  // of the workload
  std::string workload;
  NodeTimes times;
  std::map<std::string, std::unique_ptr<PhaseTimer>> timers;
};

NodeTimer::NodeTimer(Device& device, int64_t steps_max)
    : impl_(std::make_unique<Impl>(device, steps_max)) {}
NodeTimer::~NodeTimer() = default;

NodeWatch& NodeTimer::watch(const std::string& phase) {
  auto& timer = impl_->timers[phase];
  if (!timer) timer = std::make_unique<Impl::PhaseTimer>(*impl_, phase);
  return *timer;
}

void NodeTimer::set_workload(const std::string& name) {
  impl_->workload = name;
  impl_->steps = 0;
}

const NodeTimes& NodeTimer::result() const { return impl_->times; }

}  // namespace fk
