// SPDX-License-Identifier: Apache-2.0
// Real inputs from a whole model: the baseline runs a scenario's workloads once, and what its nodes
// are called with is written to a folder as cases. docs/capture.md has the form of the files.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/check/plugin_set.hpp"
#include "core/contract/contract.hpp"
#include "core/engines/scenario.hpp"
#include "core/exec/recorder.hpp"

namespace fk {

struct CaptureOptions {
  RecordOptions record;
  std::string device = "cpu";
  std::vector<std::string> workloads;  // empty: all of the scenario
  int64_t requests = 0;                // of every workload, the first ones; 0: all
  std::filesystem::path folder;        // an index that is there is replaced
  std::function<void(const std::string& text)> progress;
};

// The index, as it was written to the folder. Error for bad input or when the baseline fails; then
// the folder has no index.
Json capture_scenario(const Scenario& scenario, const CaptureOptions& options,
                      const Catalog& catalog, const PluginSet& plugin_set);

}  // namespace fk
