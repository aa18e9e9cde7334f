// SPDX-License-Identifier: Apache-2.0
// Records real inputs from a whole model. The baseline runs a scenario's workloads once, and its
// nodes' inputs are written to a folder as cases. docs/record.md describes the files.
#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/check/plugin_set.hpp"
#include "core/contract/contract.hpp"
#include "core/engines/scenario.hpp"
#include "core/exec/capture_index.hpp"
#include "core/exec/recorder.hpp"

namespace fk {

struct RecordingOptions {
  RecordOptions record;
  std::string device = "cpu";
  std::vector<std::string> workloads;  // empty: all of the scenario's
  int64_t requests = 0;                // the first ones of each workload; 0: all
  std::filesystem::path folder;        // an existing index is replaced
  std::function<void(const std::string& text)> progress;
};

// Returns the index, as written to the folder. Error for bad input, or when the baseline fails;
// then the folder has no index.
CaptureIndex record_scenario(const Scenario& scenario, const RecordingOptions& options,
                             const Catalog& catalog, const PluginSet& plugin_set);

}  // namespace fk
