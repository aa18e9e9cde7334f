// SPDX-License-Identifier: Apache-2.0
// Cold samples of a provider, and of a copy of as many bytes, for a race (race_clock.hpp).
//
// One sample: the last cache is flushed by reading, then comes a call, or a replay of a graph that
// holds `calls` calls on as many different sets of buffers; the seconds are divided by them. There
// are as many graphs as sets, at least eight where memory allows, and they are replayed in random
// order. Samples in which the device waited for the host are dropped.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/cases/execute.hpp"
#include "core/comm/communicator.hpp"
#include "core/measure/race_clock.hpp"
#include "core/tensor/random.hpp"

namespace fk {

// The sets of buffers that the contenders of one case share. Every set has all tensors of the case
// with the same contents.
class BufferSets {
 public:
  // On a device with `memory` bytes to spare for them.
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
  // `sets` is how many there are to choose from.
  Sampler(Device& device, Stopwatch& watch, size_t sets, uint64_t seed);
  std::optional<double> sample() override;
  // Seconds of a call on buffers that were just used. Nothing as for sample().
  std::optional<double> warm();
  // How many calls a sample holds from now on; of a provider one on devices without graphs.
  void set_calls(int calls);
  int calls() const { return calls_; }
  bool captured() const { return !graphs_.empty(); }
  // From now on nothing is captured, whatever can be: the host launches every call.
  void stay_eager() { eager_ = true; }
  // Every sample would have been dropped, so none is: the time is the host's.
  bool host_bound() const { return host_bound_; }
  // One of several ranks whose calls need each other: they begin a sample together, and its seconds
  // are the slowest rank's on all of them. `comm` outlives this object.
  void set_communicator(Communicator* comm) { comm_ = comm; }

 protected:
  virtual void call(size_t set) = 0;  // enqueues one call on a set; Error when it fails
  virtual bool may_capture() const { return !eager_ && device_.can_capture(); }
  // Whether a sample has more than one call where calls are not captured.
  virtual bool many_at_once() const { return false; }
  // Before a sample that begins with this set: its memory is in no cache afterwards.
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

// One provider: an instance per set of buffers, so that weights rotate as well.
class ProviderSampler final : public Sampler {
 public:
  // Error when the provider refuses or fails; what is given outlives this object.
  ProviderSampler(const Provider& provider, Device& device, Stopwatch& watch,
                  const BufferSets& sets, const Plugins& plugins, int threads, uint64_t seed);
  double plan_s() const { return plan_s_; }  // of one plan() on the host; 0 where there is none

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

// What a call is beside: a copy that reads and writes as many bytes together. On the CPU by all
// threads from 8 MiB up, by one below.
class CopySampler final : public Sampler {
 public:
  CopySampler(Device& device, Stopwatch& watch, size_t sets, int64_t bytes, int threads,
              uint64_t seed);
  // From now on only its own memory is taken out of the caches before a sample, where the device
  // can do that, and a sample has several calls everywhere: for who compares it with such.
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

// Seconds of a copy of as many bytes, as one of `calls` behind each other, of kCopiesMost at most
// where they can be captured, with cold caches: the median of the samples that a few milliseconds
// allow, one at least. It shares the device with nobody meanwhile, or is slower. Error when there
// is no memory for it.
constexpr int kCopiesMost = 8;
double copy_seconds(Device& device, Stopwatch& watch, int64_t bytes, int calls, int threads);

}  // namespace fk
