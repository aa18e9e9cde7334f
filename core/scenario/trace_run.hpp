// SPDX-License-Identifier: Apache-2.0
// Traces of a scenario: each side drives each workload once more, after the verdict, with the times
// of every op (core/exec/node_times.hpp). The times are what the sides' own processes report, so
// they explain a verdict and are no part of it.
#pragma once
#include <string>
#include <vector>

#include "core/exec/node_times.hpp"
#include "core/scenario/drive_round.hpp"
#include "core/scenario/run.hpp"

namespace fk {

// One workload on one side.
struct TracedRound {
  std::string side, workload;
  Round round;                   // requests, by the controller's clock
  std::vector<NodeTimes> ranks;  // steps of this workload, by rank
};

struct ScenarioTrace {
  std::vector<TracedRound> rounds;
  std::vector<TracedOp> ops;       // their sums
  std::vector<std::string> notes;  // what was not traced, and why
};

// The baseline, and the candidates that `report` calls correct. A side that fails is a note.
ScenarioTrace trace_scenario(const Scenario& scenario, const RunOptions& options,
                             const Catalog& catalog, const PluginSet& plugin_set,
                             const RunReport& report);

}  // namespace fk
