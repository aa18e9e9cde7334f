// SPDX-License-Identifier: Apache-2.0
#include "core/measure/sampler.hpp"

#include <algorithm>
#include <cstring>
#include <thread>

#include "core/base/clock.hpp"
#include "core/base/error.hpp"

namespace fk {

namespace {

constexpr int64_t kColdBytes = int64_t{256} << 20;  // for small cases, all sets together
constexpr int64_t kSetsMin = 8, kSetsMax = 64;
constexpr int kLateMax = 20;
constexpr int64_t kThreadBytes = int64_t{8} << 20;

// The driver copies slowly unless the size is a multiple of some KiB. An H200 copies 2 x 58738688
// bytes at 2.7 TB/s, and 2 x 58867712 bytes at 4.05 TB/s. A fair comparison needs a good copy. So
// the size is rounded if this changes it by less than one percent.
int64_t copied_bytes(int64_t half) {
  for (const int64_t unit : {int64_t{1} << 16, int64_t{1} << 14})
    if (half >= 64 * unit) return (half + unit / 2) / unit * unit;
  return std::max<int64_t>(half, 1);
}

}  // namespace

BufferSets::BufferSets(Device& device, const ResolvedCase& resolved, const CaseValues& values,
                       int64_t memory) {
  Layout layout;
  layout.snapshot = false;
  sets_.push_back(std::make_unique<CaseFrames>(device, resolved, values, layout));
  const int64_t each = std::max<int64_t>(bytes(), 1);
  const int64_t enough = std::clamp(kColdBytes / each, kSetsMin, kSetsMax);
  const int64_t count = std::clamp<int64_t>(memory / each, 2, enough);
  for (layout.shift = 1; layout.shift < count; ++layout.shift)
    sets_.push_back(std::make_unique<CaseFrames>(*sets_[0], layout));
  device.synchronize();
}

Sampler::Sampler(Device& device, Stopwatch& watch, size_t sets, uint64_t seed)
    : device_(device), watch_(watch), sets_(sets), random_(seed) {}

void Sampler::set_calls(int calls) {
  graphs_.clear();
  calls_ = 1;
  if (!may_capture() && !many_at_once()) return;
  calls_ = std::clamp(calls, 1, static_cast<int>(sets_));
  for (size_t first = 0; may_capture() && first < sets_; ++first) {
    device_.begin_capture();
    std::string why;
    try {
      for (int i = 0; i < calls_; ++i) {
        if (i > 0) device_.separate_calls();
        call((first + static_cast<size_t>(i)) % sets_);
      }
    } catch (const Error& error) {
      why = error.what();  // the capture must end first
    }
    std::shared_ptr<void> graph = device_.end_capture();
    if (!why.empty()) fail("bench", why);
    graphs_.push_back(std::move(graph));
  }
}

void Sampler::run(size_t first) {
  if (!graphs_.empty()) return device_.launch(graphs_[first].get());
  for (int i = 0; i < calls_; ++i) call((first + static_cast<size_t>(i)) % sets_);
}

void Sampler::meet() {
  if (comm_) comm_->meeting().all_say("a sample begins", true);
}

// Ranks on a GPU meet before the device flushes its cache, and then on the device. So no rank waits
// for work that another process has not enqueued. On a CPU, calls begin right after the meeting.
void Sampler::begin() {
  if (comm_ && device_.host_memory()) meet();
  if (comm_) comm_->align();
  watch_.start();
}

std::optional<double> Sampler::read() {
  double seconds = watch_.seconds() / calls_;
  bool late = watch_.late();
  if (comm_) {
    seconds = comm_->meeting().slowest("a sample", seconds);
    late = !comm_->meeting().all_say("in time", !late);
  }
  if (!late) {
    late_ = 0;
  } else if (!host_bound_) {
    host_bound_ = ++late_ > kLateMax;
    return std::nullopt;
  }
  return seconds;
}

std::optional<double> Sampler::sample() {
  const auto first = static_cast<size_t>(random_.integer(0, static_cast<int64_t>(sets_)));
  if (!device_.host_memory()) meet();
  cool(first);
  begin();
  run(first);
  watch_.stop();
  return read();
}

std::optional<double> Sampler::warm() {
  if (!device_.host_memory()) meet();
  for (int i = 0; i < 3; ++i) run(0);  // gives the host time to get ahead
  begin();
  run(0);
  watch_.stop();
  const double own = watch_.seconds() / calls_;
  const double seconds = comm_ ? comm_->meeting().slowest("a warm sample", own) : own;
  return watch_.late() ? std::nullopt : std::optional(seconds);
}

ProviderSampler::ProviderSampler(const Provider& provider, Device& device, Stopwatch& watch,
                                 const BufferSets& sets, const Plugins& plugins, int threads,
                                 uint64_t seed)
    : Sampler(device, watch, sets.count(), seed),
      provider_(provider),
      buffers_(sets),
      guarded_(device, 0, threads),
      children_(plugins, provider) {
  for (size_t i = 0; i < sets.count(); ++i) {
    const CaseFrames& frames = sets.set(i);
    const Support support = Instance::supports(provider, frames.meta());
    if (!support.ok) fail(provider.plugin, "refused: " + support.why);
    executions_.push_back(
        std::make_unique<Execution>(provider, frames, support.need, guarded_, packed_, &children_));
    const double start = now_seconds();
    const std::string why = executions_.back()->plan(frames);
    plan_s_ = executions_.back()->instance().has_plan() ? now_seconds() - start : 0;
    if (!why.empty()) fail(provider.plugin, why);
    slots_.push_back(executions_.back()->fitted(frames));
    call(i);  // eagerly, so that code is loaded before a capture
  }
  device.synchronize();
}

void ProviderSampler::call(size_t set) {
  if (executions_[set]->forward(slots_[set]) != FK_OK)
    fail(provider_.plugin, executions_[set]->instance().error().text);
}

bool ProviderSampler::may_capture() const {
  // Claims below `always` are about uniform batches, which is not tested here.
  return Sampler::may_capture() && provider_.op->claims->graph == FK_GRAPH_ALWAYS;
}

CopySampler::CopySampler(Device& device, Stopwatch& watch, size_t sets, int64_t bytes, int threads,
                         uint64_t seed)
    : Sampler(device, watch, sets, seed),
      half_(copied_bytes(bytes / 2)),
      threads_(std::max(threads, 1)) {
  for (size_t i = 0; i < sets; ++i) {
    from_.emplace_back(device, half_, "the copy beside a bench");
    to_.emplace_back(device, half_, "the copy beside a bench");
    device.fill_zero(from_.back().data(), half_);
    device.fill_zero(to_.back().data(), half_);
  }
  device.synchronize();
}

void CopySampler::cool(size_t first) {
  bool out = own_memory_;
  for (int i = 0; out && i < calls(); ++i) {
    const size_t set = (first + static_cast<size_t>(i)) % from_.size();
    out = watch_.evict(from_[set].data(), half_) && watch_.evict(to_[set].data(), half_);
  }
  if (!out) watch_.flush();
}

double copy_seconds(Device& device, Stopwatch& watch, int64_t bytes, int calls, int threads) {
  constexpr int kSamples = 5;
  constexpr double kSeconds = 4e-3;
  constexpr int64_t kMemory = int64_t{1} << 30;
  const int64_t room = std::max<int64_t>(1, kMemory / std::max<int64_t>(bytes, 1));
  const int64_t most = device.can_capture() ? std::min(kCopiesMost, calls) : calls;
  const auto sets = static_cast<int>(std::clamp<int64_t>(most, 1, room));
  CopySampler copy(device, watch, static_cast<size_t>(sets), bytes, threads, 0);
  copy.cool_own_memory();
  copy.set_calls(sets);
  copy.sample();  // one-time work
  std::vector<double> samples;
  const double start = now_seconds();
  while (samples.size() < kSamples && (samples.empty() || now_seconds() - start < kSeconds))
    if (const auto s = copy.sample()) samples.push_back(*s);
  return quantile(samples, 0.5);
}

void CopySampler::call(size_t set) {
  std::byte* to = to_[set].data();
  const std::byte* from = from_[set].data();
  if (!device_.host_memory()) {
    // In a graph, the driver copies more than half a GiB at two thirds of the speed.
    constexpr int64_t kPiece = int64_t{1} << 28;
    for (int64_t at = 0; at < half_; at += kPiece)
      device_.copy(to + at, from + at, std::min(half_ - at, kPiece));
    return;
  }
  if (half_ < kThreadBytes) return device_.copy(to, from, half_);
  const auto part = static_cast<size_t>(half_) / static_cast<size_t>(threads_);
  std::vector<std::thread> others;
  for (int t = 1; t < threads_; ++t) {
    const size_t at = part * static_cast<size_t>(t);
    const size_t size = t + 1 == threads_ ? static_cast<size_t>(half_) - at : part;
    others.emplace_back([=] { std::memcpy(to + at, from + at, size); });
  }
  std::memcpy(to, from, threads_ == 1 ? static_cast<size_t>(half_) : part);
  for (auto& thread : others) thread.join();
}

}  // namespace fk
