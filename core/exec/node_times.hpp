// SPDX-License-Identifier: Apache-2.0
// Times of every node of a running model, for traces. The device is waited for before and after each
// node. No step is captured. So a node's time is whole, and a step takes longer than a timed one.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/field_list.hpp"
#include "core/exec/session.hpp"

namespace fk {

struct TimedNode {
  std::string path, op, provider;
  FK_FIELDS(path, op, provider)
};
struct TimedStep {
  std::string phase, workload;
  double begin_s = 0;          // of now_seconds()
  std::vector<int32_t> nodes;  // indices in the phase's nodes, in order of execution
  std::vector<int64_t> ns;     // begin and end of each of them, after begin_s
  FK_FIELDS(phase, workload, begin_s, nodes, ns)
};
struct NodeTimes {
  std::map<std::string, std::vector<TimedNode>> phases;  // nodes by phase
  std::vector<TimedStep> steps;                          // in order
  int64_t left_out = 0;                                  // steps beyond the limit
  FK_FIELDS(phases, steps, left_out)
};

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
