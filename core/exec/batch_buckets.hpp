// SPDX-License-Identifier: Apache-2.0
// One phase in several sizes: programs of the same graph with smaller limits, each with the best
// providers for its size. A step runs in the smallest program that holds it. All programs have the
// same inputs in the same memory.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/exec/program.hpp"

namespace fk {

class LadderProgram final : public Program {
 public:
  // `rungs`: the programs by limits, smallest first. The last one has the phase's limits. All must
  // outlive this.
  explicit LadderProgram(std::vector<PhaseProgram*> rungs);

  int axis(const std::string& name) const override { return rungs_.back()->axis(name); }
  int64_t limit(const std::string& axis) const override { return rungs_.back()->limit(axis); }
  void bind(int axis, int64_t value) override;
  void* input(const std::string& name) override { return rungs_.back()->input(name); }
  void run() override;
  bool replays() const override { return rungs_.back()->replays(); }
  Output output(const std::string& name) const override { return active_->output(name); }
  void read(const std::string& output, void* host, int64_t bytes) override {
    active_->read(output, host, bytes);
  }
  bool runs_ahead() const override { return rungs_.back()->runs_ahead(); }
  int64_t fetch(const std::string& output, int64_t bytes) override;
  const void* fetched(int64_t which) override;
  void feed_tokens(const std::string& input, const std::string& output, int64_t count,
                   int64_t vocab_size) override;
  void set_marker(volatile int32_t* node) override;
  void set_taps(TapSink sink) override;
  void set_watch(NodeWatch* watch) override;
  const std::vector<NodeInfo>& nodes() const override { return rungs_.back()->nodes(); }
  int64_t arena_bytes() const override { return rungs_.back()->arena_bytes(); }

 private:
  std::vector<PhaseProgram*> rungs_;
  std::vector<int64_t> values_;  // by axis; -1: not bound
  PhaseProgram* active_;
  // A copy of an output (fetch()), and the program which made it.
  struct Fetched {
    PhaseProgram* rung = nullptr;
    int64_t which = 0;
  };
  Fetched fetched_[2];  // the last two, in turns
  int64_t fetches_ = 0;
  std::function<void()> feed_;  // feed_tokens() for the next program that runs
};

}  // namespace fk
