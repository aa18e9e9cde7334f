// SPDX-License-Identifier: Apache-2.0
// Times of every node of a running model, for traces. The device is waited for before and after
// each node, and no step is captured: a node's time is whole, and a step takes longer than a timed
// one.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "core/exec/recording.hpp"
#include "core/exec/session.hpp"

namespace fk {

// Error when a worker's times are no times: an index without a node, or an end before its begin.
void check_times(const NodeTimes& times);

class NodeTimer {
 public:
  // Keeps `steps_max` steps of each workload.
  NodeTimer(Device& device, int64_t steps_max);
  ~NodeTimer();
  NodeTimer(const NodeTimer&) = delete;

  // For the programs of this name. Lives as long as this.
  NodeWatch& watch(const std::string& phase);
  void set_workload(const std::string& name);  // of later steps
  const NodeTimes& result() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace fk
