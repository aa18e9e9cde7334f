// SPDX-License-Identifier: Apache-2.0
// Cold samples of a provider, and of a copy of as many bytes, for a race (race_clock.hpp).
//
// One sample flushes the last cache by reading. Then it makes a call, or replays a graph with
// `calls` calls on different sets of buffers, and divides the seconds by `calls`. There are as many
// graphs as sets, at least eight if memory allows, replayed in random order. A sample is dropped
// when the device waited for the host.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/cases/execute.hpp"
#include "core/comm/communicator.hpp"
#include "core/measure/race_clock.hpp"
#include "core/tensor/random.hpp"

namespace fk {

// Sets of buffers that the contenders of one case share. Each set has all tensors of the case, with
// the same contents.
class BufferSets {
 public:
  // Makes sets on the device in at most `memory` bytes.
  BufferSets(Device& device, const ResolvedCase& resolved, const CaseValues& values,
             int64_t memory);
  size_t count() const { return sets_.size(); }
  const CaseFrames& set(size_t i) const { return *sets_[i]; }
  int64_t bytes() const { return sets_[0]->bytes(); }  // of one set

 private:
  std::vector<std::unique_ptr<CaseFrames>> sets_;
};

class Sampler : public Contender {
 public:
  // `sets` is the number of sets to choose from.
  Sampler(Device& device, Stopwatch& watch, size_t sets, uint64_t seed);
  std::optional<double> sample() override;
  // Seconds of a call on buffers that were just used. Nothing as for sample().
  std::optional<double> warm();
  // Number of calls per later sample. A provider makes one on devices without graphs.
  void set_calls(int calls);
  int calls() const { return calls_; }
  bool captured() const { return !graphs_.empty(); }
  // Later calls are launched one by one, without captures.
  void stay_eager() { eager_ = true; }
  // True when every sample would have been dropped, so none is: the time is the host's.
  bool host_bound() const { return host_bound_; }
  // For ranks whose calls need each other: they begin a sample together, and all get the slowest
  // rank's seconds. `comm` outlives this object.
  void set_communicator(Communicator* comm) { comm_ = comm; }

 protected:
  virtual void call(size_t set) = 0;  // enqueues one call on a set; Error when it fails
  virtual bool may_capture() const { return !eager_ && device_.can_capture(); }
  // True when a sample has several calls even without a capture.
  virtual bool many_at_once() const { return false; }
  // Takes memory out of all caches before a sample that begins with this set.
  virtual void cool(size_t /*first*/) { watch_.flush(); }
  Device& device_;
  Stopwatch& watch_;

 private:
  void run(size_t first);
  void meet();
  void begin();
  std::optional<double> read();

  Communicator* comm_ = nullptr;
  size_t sets_;
  int calls_ = 1;
  bool eager_ = false;
  std::vector<std::shared_ptr<void>> graphs_;
  Random random_;
  int late_ = 0;  // dropped samples in a row
  bool host_bound_ = false;
};

// One provider, with an instance per set of buffers, so that weights change from call to call.
class ProviderSampler final : public Sampler {
 public:
  // Error when the provider refuses or fails. All arguments outlive this object.
  ProviderSampler(const Provider& provider, Device& device, Stopwatch& watch,
                  const BufferSets& sets, const Plugins& plugins, int threads, uint64_t seed);
  double plan_s() const { return plan_s_; }  // of one plan() on the host; 0: no plan()

 private:
  void call(size_t set) override;
  bool may_capture() const override;

  const Provider& provider_;
  const BufferSets& buffers_;
  GuardDevice guarded_;
  PackedCache packed_;
  LoadedChildren children_;
  std::vector<std::unique_ptr<Execution>> executions_;
  std::vector<std::vector<fk_slot>> slots_;
  double plan_s_ = 0;
};

// A copy that reads and writes as many bytes as a call, for comparison. On the CPU all threads copy
// from 8 MiB up, and one thread below.
class CopySampler final : public Sampler {
 public:
  CopySampler(Device& device, Stopwatch& watch, size_t sets, int64_t bytes, int threads,
              uint64_t seed);
  // Later samples take only its own memory out of the caches, if the device can do that, and have
  // several calls on all devices. For comparison with such samples.
  void cool_own_memory() { own_memory_ = true; }

 private:
  void call(size_t set) override;
  void cool(size_t first) override;
  bool many_at_once() const override { return own_memory_; }
  std::vector<DeviceMemory> from_, to_;
  int64_t half_;
  int threads_;
  bool own_memory_ = false;
};

// Median seconds of a copy of `bytes` bytes with cold caches, as one of `calls` copies in a row. At
// most kCopiesMost are captured together. Takes as many samples as a few milliseconds allow, at
// least one. Other work on the device makes it slower. Error when memory is short.
constexpr int kCopiesMost = 8;
double copy_seconds(Device& device, Stopwatch& watch, int64_t bytes, int calls, int threads);

}  // namespace fk
