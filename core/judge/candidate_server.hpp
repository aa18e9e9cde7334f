// SPDX-License-Identifier: Apache-2.0
// The side of a case run that runs a provider: it maps the oracle's sets of buffers, makes an
// instance for each, and calls them when it is told to. What it says about time is a claim.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/comm/communicator.hpp"
#include "core/judge/oracle_server.hpp"
#include "core/measure/sampler.hpp"

namespace fk {

// Asks supports() for a case of which no contents are needed; Error beginning with "refused: ".
void need_support(const Provider& provider, Device& device, const AskedCase& asked,
                  Communicator* comm);

class CandidateServer {
 public:
  // Maps what the descriptors hold and closes them before plugin code runs. Error with the plugin's
  // words when it refuses (beginning with "refused: ") or fails. `comm` is this rank's, where the
  // contract has a communicator: all ranks make theirs together.
  // The watch is the device's, and used by nobody else meanwhile.
  CandidateServer(const Provider& provider, const Plugins& plugins, Device& device,
                  Stopwatch& watch, const CaseRunShape& shape, int read_fd, int written_fd,
                  int threads, Communicator* comm);

  bool deterministic() const { return provider_.op->claims->deterministic; }
  // plan() for the sets, whose numbers are there; seconds of the last one. Error when it fails.
  double plan(const std::vector<int>& sets);
  // Whether there is packed or persistent memory, which only this process can make cold.
  bool keeps() const { return device_.host_memory() && !guarded_.memory().empty(); }
  // Bytes of memory that the instances have asked for and were given.
  int64_t given() const;
  // Captures the calls that run(first, count) makes where that can be done, for which it may make
  // them. On the CPU caches hold nothing of what is kept afterwards, or nothing of `all` memory of
  // this process.
  void ready(int first, int count, bool all);
  // On the set, whose numbers are there: what every call reads is in the caches afterwards. Of
  // several ranks none does it. Error when it fails.
  void call_once(int set);
  // One call on each of `count` sets from `first` on, round about. Seconds of one call as this
  // process' clock says, 0 of none; Error when a call fails. Ranks begin together.
  // On the CPU a single rank begins on the core with this number (go_to_core), where it has one.
  // `eager`: nothing is captured, whatever can be. `done` is called as soon as the clock has
  // stopped.
  double run(int first, int count, int core = -1, bool eager = false,
             const std::function<void()>& done = {});
  // On a device one call on set `first`, without a flush before it. A call on the set behind it
  // comes before, in which the host gets ahead. Otherwise as run(); the CPU's run() flushes
  // nothing.
  double run_warm(int first);
  // Whether the device waited for the host in the last run(), whose seconds are the host's then.
  bool late() const { return watch_.late(); }
  // When the calls of the last run() began and ended, by the clock that all ranks of this machine
  // have in common; nothing where another clock is the right one.
  const std::optional<std::pair<double, double>>& span() const { return span_; }
  bool captured() const { return captured_; }
  // What a captured call launches; nothing before one was captured, or on the CPU.
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
  Communicator* const comm_;  // null: there is one rank
  SharedMapping read_, written_;
  Stopwatch& watch_;
  GuardDevice guarded_;
  PackedCache packed_;
  LoadedChildren children_;
  std::unique_ptr<CaseFrames> larger_;  // that instances are made for; null: their own sets
  std::vector<std::unique_ptr<CaseFrames>> sets_;
  std::vector<std::unique_ptr<Execution>> executions_;
  std::vector<std::vector<fk_slot>> frames_;
  std::vector<bool> called_;  // a set, once or more often
  std::map<std::pair<int, int>, std::shared_ptr<void>> graphs_;
  int64_t given_ = 0;  // that is not guarded_'s
  bool captured_ = false;
  std::optional<std::pair<double, double>> span_;
  std::optional<LaunchFacts> facts_;
};

}  // namespace fk
