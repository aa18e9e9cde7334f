// SPDX-License-Identifier: Apache-2.0
#include "core/check/device_conformance.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr double kHold = 0.4, kStray = 0.03;  // seconds
constexpr int kRounds = 3, kRoundsMost = 9, kDeviceCycles = 16;
// size of the pieces in which a device gives memory
constexpr int64_t kLost = int64_t{1} << 20, kPiece = int64_t{4} << 20;

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

std::vector<std::vector<std::byte>> as_they_are(Device& device, const DeviceParts& parts) {
  std::vector<std::vector<std::byte>> out;
  for (const auto& part : parts) {
    out.emplace_back(part.size());
    if (!part.empty())
      device.peek(out.back().data(), part.data(), static_cast<int64_t>(part.size()));
  }
  return out;
}

// Holds the stream until destruction, in any case.
struct Held {
  explicit Held(Device& d) : device(d), held(d.hold(kHold)) {}
  Held(const Held&) = delete;
  ~Held() { device.let_go(); }
  Device& device;
  bool held;
};

// True when work ran before its stream reached it. Nothing when the call took so long that the hold
// may have ended. `took_s`: seconds of the call.
std::optional<bool> runs_ahead(Device& device, const DeviceParts& memory,
                               const std::function<void()>& ready,
                               const std::function<void()>& forward, double& took_s) {
  ready();
  device.synchronize_all();
  const auto before = as_they_are(device, memory);
  const double begin = now_seconds();
  const Held held(device);
  if (!held.held) return false;
  const double start = now_seconds();
  forward();
  took_s = now_seconds() - start;
  if (took_s > kHold / 2) return std::nullopt;
  sleep(kStray);
  const bool changed = as_they_are(device, memory) != before;
  if (now_seconds() - begin > 0.8 * kHold) return std::nullopt;
  return changed;
}

// True when memory changes after all work of the stream has ended.
bool runs_on(Device& device, const DeviceParts& memory, const std::function<void()>& ready,
             const std::function<void()>& forward) {
  ready();
  device.synchronize_all();
  forward();
  device.synchronize();
  const auto done = as_they_are(device, memory);
  sleep(kStray);
  device.synchronize_all();
  return as_they_are(device, memory) != done;
}

void need_ok(Execution& execution, int32_t status) {
  if (status != FK_OK)
    fail("forward",
         std::string("it fails when it is called again: ") + execution.instance().error().text);
}

// Copies the memory of `from` to the same places of `to`.
void put(Device& device, const CaseFrames& from, const CaseFrames& to) {
  const auto source = from.memory(), target = to.memory();
  FK_CHECK(source.size() == target.size(), "the same case in two places");
  for (size_t i = 0; i < source.size(); ++i)
    device.copy(const_cast<std::byte*>(target[i].data()), source[i].data(),
                static_cast<int64_t>(source[i].size()));
}

}  // namespace

ConformanceFault stream_fault(Device& device, const DeviceParts& memory,
                              const std::function<void()>& ready,
                              const std::function<void()>& forward) {
  if (runs_on(device, memory, ready, forward))
    return {"stream", "its work goes on after the given stream has finished"};
  // Other processes may delay this one once or twice.
  constexpr int kTries = 3;
  int ahead = 0, waits = 0;
  for (int i = 0; i < kTries; ++i) {
    double took_s = 0;
    const auto found = runs_ahead(device, memory, ready, forward, took_s);
    device.synchronize_all();
    if (found && !*found) return {};
    ahead += found.has_value();
    waits += took_s > kHold / 2;
  }
  if (ahead > 1)
    return {"stream", "it works on another stream, which does not wait for the given stream"};
  if (waits < kTries) return {};
  return {"waits",
          "forward() waits for its stream, by a call that synchronizes, allocates or "
          "releases memory; it may enqueue and nothing else"};
}

ConformanceFault device_leak(Device& device, const std::function<void()>& cycle,
                             const std::string& what, const AnyRank& any) {
  const auto one_of_us = [&](bool mine) { return any ? any(mine) : mine; };
  bool every_round = true;
  for (int i = 0; i < 4; ++i) cycle();
  int64_t least = 0, most = 0;
  // Equal numbers of calls lose equal amounts. Other processes take unequal amounts, and not for
  // long.
  const auto alike = [&] { return most - least <= kPiece; };
  for (int round = 0; round < kRounds || (round < kRoundsMost && one_of_us(!alike())); ++round) {
    device.synchronize_all();
    const auto before = device.free_bytes();
    for (int i = 0; i < kDeviceCycles; ++i) cycle();
    device.synchronize_all();
    const auto after = device.free_bytes();
    every_round &= before && after && *before - *after >= kLost;
    if (!one_of_us(every_round)) return {};
    if (!every_round) continue;  // another rank continues
    least = round == 0 ? *before - *after : std::min(least, *before - *after);
    most = std::max(most, *before - *after);
  }
  if (!every_round) return {};
  return {"leak",
          what + ": the device loses about " + human_bytes(least / kDeviceCycles) + " each time"};
}

ConformanceFault create_fault(const ConformanceCase& c) {
  constexpr int kInstances = 3;
  int64_t least = 0;
  for (int i = 0; i < kInstances; ++i) {
    std::optional<int64_t> after;
    GuardDevice device(c.device, 0, c.options.threads);
    PackedCache packed;
    InstanceServices services{device, packed, c.children, [](int, const std::string&) {}};
    services.created = [&] { after = c.device.free_bytes(); };
    c.device.synchronize_all();
    const auto before = c.device.free_bytes();
    const Instance instance(c.provider, c.max.prepare_frames(), c.need, services);
    if (!before || !after) return {};
    const int64_t taken = *before - *after;
    least = i == 0 ? taken : std::min(least, taken);
  }
  if (least < kLost) return {};
  return {"create", "create() takes " + human_bytes(least) +
                        " of the device's memory; that is asked for in supports() and given in "
                        "prepare()"};
}

ConformanceFault stream_of_forward(const ConformanceCase& c) {
  Lone lone(c);
  if (!lone.execution.run(c.frames, Poison::ones).failure.empty()) return {};
  const auto frame = lone.execution.fitted(c.frames);
  return stream_fault(
      c.device, c.frames.memory(), [&] { c.frames.restore(Poison::ones); },
      [&] { need_ok(lone.execution, lone.execution.forward(frame)); });
}

ConformanceFault device_fault(const ConformanceCase& c, const ConformanceDiffer& differ,
                              const std::function<void(const std::string&)>& step) {
  {
    step("many calls");
    Lone lone(c);
    const auto one_call = [&] {
      lone.execution.run(c.frames, Poison::ones);
      (void)any_rank(c, false);  // no rank runs ahead
    };
    const ConformanceFault lost = device_leak(c.device, one_call, "calls of an instance",
                                              [&](bool mine) { return any_rank(c, mine); });
    if (!lost.rule.empty()) return lost;
  }
  // Symmetric buffers live as long as the process.
  if (c.provider.contract->comm()) return {};
  step("many instances");
  ConformanceFault lost = device_leak(
      c.device, [&] { Lone lone(c); }, "instances that are made, prepared and destroyed");
  if (!lost.rule.empty()) return lost;
  if (ConformanceFault taken = create_fault(c); !taken.rule.empty()) return taken;
  (void)c.device.left_behind();
  { Lone lone(c); }
  const std::string left = c.device.left_behind();
  if (!left.empty()) return {"state", "after destroy() " + left};
  if (c.provider.op->claims->graph != FK_GRAPH_ALWAYS || !c.provider.op->claims->deterministic)
    return {};
  step("a graph on other contents");
  const std::string stale = stale_graph(c, differ);
  return stale.empty() ? ConformanceFault{} : ConformanceFault{"graph", stale};
}

bool may_capture(const Provider& provider, const ResolvedCase& resolved, const CaseValues& values) {
  const int32_t level = provider.op->claims->graph;
  if (level == FK_GRAPH_NEVER || level == FK_GRAPH_ALWAYS) return level == FK_GRAPH_ALWAYS;
  for (const auto& field : resolved.fields) {
    if (!field.present || !field.values.starts_with("cu(")) continue;
    const Tensor& starts = values.at(field.slot->name)[0];
    for (int64_t i = 1; i < starts.numel(); ++i) {
      const double tokens = starts.at(i) - starts.at(i - 1);
      if (tokens != starts.at(1) || (level == FK_GRAPH_UNIFORM_DECODE && tokens != 1)) return false;
    }
  }
  return true;
}

std::shared_ptr<void> captured_call(const ConformanceCase& c, Execution& execution,
                                    const CaseFrames& frames) {
  const auto frame = execution.fitted(frames);
  c.device.begin_capture();
  c.device.mark_capture(c.provider.contract->op, c.provider.trust == Trust::candidate,
                        execution.instance().side_streams());
  const int32_t status = execution.forward(frame);
  auto graph = c.device.end_capture();
  need_ok(execution, status);
  return graph;
}

std::string stale_graph(const ConformanceCase& c, const ConformanceDiffer& differ) {
  if (!c.device.can_capture()) return "";
  const ResolvedCase& resolved = c.frames.resolved();
  const CaseValues first = make_inputs(resolved, c.options.seed, c.options.threads);
  CaseValues other =
      make_forward_inputs(resolved, c.options.seed + 0x5eed, c.options.threads, Family::ordinary);
  for (const auto& [name, tensors] : first) other.try_emplace(name, tensors);
  Layout layout;
  layout.poison = Poison::random;
  CaseFrames frames(c.device, resolved, first, layout);
  CaseFrames others(c.device, resolved, other, layout);
  const auto planned = [](Execution& execution, const CaseFrames& on) {
    if (const std::string why = execution.plan(on); !why.empty()) fail("forward", why);
  };
  Lone lone(c);
  // Several calls, because a call may use data that was read back from an earlier one.
  for (int i = 0; i < 3; ++i) lone.execution.run(frames, Poison::ones);
  std::shared_ptr<void> graph;
  try {
    graph = captured_call(c, lone.execution, frames);
  } catch (const Error& error) {
    return "the claim that forward() can be captured is false: " + error.what_text();
  }
  {
    Lone unrelated(c);
    unrelated.execution.run(others, Poison::ones);
    (void)captured_call(c, unrelated.execution, others);
  }
  others.restore(Poison::random);
  put(c.device, others, frames);
  planned(lone.execution, others);
  c.device.launch(graph.get());
  c.device.synchronize();
  const CaseValues replayed = frames.written();
  Lone fresh(c);
  fresh.execution.run(others, Poison::random);
  if (!differ(others.written(), replayed)) return "";
  return "a replayed call differs from an eager call with other "
         "contents; has it kept what it saw when it was captured?";
}

}  // namespace fk
