// SPDX-License-Identifier: Apache-2.0
// The side of a case run that runs a provider. It maps the oracle's sets of buffers, makes an
// instance for each set, and calls instances on request. Its times are only claims.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator.hpp"
#include "core/judge/oracle_server.hpp"
#include "core/measure/sampler.hpp"

namespace fk {

// Asks supports() for a case without its contents. Error beginning with "refused: ".
void need_support(const Provider& provider, Device& device, const AskedCase& asked,
                  Communicator* comm);

class CandidateServer {
 public:
  // Maps the memory of the descriptors, and closes them before plugin code runs. Error with the
  // plugin's words when it refuses (beginning with "refused: ") or fails. `comm` is this rank's
  // communicator, for contracts with one; all ranks make theirs together. `watch` is the device's,
  // and has no other user meanwhile.
  CandidateServer(const Provider& provider, const Plugins& plugins, Device& device,
                  Stopwatch& watch, const CaseRunShape& shape, int read_fd, int written_fd,
                  int threads, Communicator* comm);

  bool deterministic() const { return provider_.op->claims->deterministic; }
  // Calls plan() for sets with dealt numbers. Returns seconds of the last call. Error when it
  // fails.
  double plan(const std::vector<int>& sets);
  // True when there is packed or persistent memory. Only this process can make it cold.
  bool keeps() const { return device_.host_memory() && !guarded_.memory().empty(); }
  // Bytes of memory that instances asked for and got.
  int64_t given() const;
  // Prepares run(first, count). Captures its calls where possible, and may make the calls for it.
  // On the CPU, the caches hold no kept memory afterwards; with `all`, no memory of this process.
  void ready(int first, int count, bool all);
  // Calls once on a set with dealt numbers, so that everything that each call reads is in the
  // caches. With several ranks it does nothing. Error when the call fails.
  void call_once(int set);
  // Calls once on each of `count` sets from `first` on, modulo the number of sets. Returns seconds
  // of one call by this process's clock, 0 for no calls. Error when a call fails. Ranks begin
  // together. A single rank on the CPU first moves to core `core` (go_to_core), if there is one.
  // With `eager`, nothing is captured. `done` is called as soon as the clock has stopped.
  double run(int first, int count, int core = -1, bool eager = false,
             const std::function<void()>& done = {});
  // On a device: times one call on set `first` without a flush. A call on the next set comes first,
  // so that the host gets ahead of the device. On the CPU it equals run(), which flushes nothing.
  double run_warm(int first);
  // True when the device waited for the host in the last run(): its seconds are the host's then.
  bool late() const { return watch_.late(); }
  // Begin and end of the calls of the last run(), by the clock that all ranks of this machine
  // share. Nothing where another clock is right.
  const std::optional<std::pair<double, double>>& span() const { return span_; }
  bool captured() const { return captured_; }
  // Facts about the launches of a captured call. Nothing on the CPU, or before a capture.
  const std::optional<LaunchFacts>& facts() const { return facts_; }

 private:
  void take_first_step(const PosedCase& posed, uint64_t draw);
  void begin_together();
  void enqueue(int first, int count, const std::vector<void*>& captured);
  std::vector<void*> captured_calls(int first, int count);
  void call(size_t set);
  void touch(int first, int count) const;
  std::shared_ptr<void> graph(int first, int count);

  const Provider& provider_;
  Device& device_;
  Communicator* const comm_;  // null: one rank
  SharedMapping read_, written_;
  Stopwatch& watch_;
  GuardDevice guarded_;
  PackedCache packed_;
  LoadedChildren children_;
  std::unique_ptr<CaseFrames> larger_;  // instances are made for these; null: for their own sets
  std::vector<std::unique_ptr<CaseFrames>> sets_;
  std::vector<std::unique_ptr<Execution>> executions_;
  std::vector<std::vector<fk_slot>> frames_;
  std::vector<bool> called_;  // by set: called at least once
  std::map<std::pair<int, int>, std::shared_ptr<void>> graphs_;
  int64_t given_ = 0;  // beyond guarded_'s memory
  bool captured_ = false;
  std::optional<std::pair<double, double>> span_;
  std::optional<LaunchFacts> facts_;
};

}  // namespace fk
