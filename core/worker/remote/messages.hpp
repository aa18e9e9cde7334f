// SPDX-License-Identifier: Apache-2.0
// What broker and leaders say about runners, as JSON. What a leader says is checked and cleaned as
// what a runner says is.
#pragma once
#include <string>
#include <vector>

#include "core/worker/runner.hpp"

namespace fk {

// All but what is of its own machine: who starts it, and whom it asks.
Json to_json(const Runner::Options& options);
Runner::Options runner_options_from(const Json& json);

Json to_json(const RunnerFailure& failure);
RunnerFailure runner_failure_from(const Json& json);
std::string clean_log(const Json& text);  // what a process printed, without control characters

// With a hash of each file that is there.
Json to_json(const std::vector<PluginFile>& plugins);
// Error, with a sentence, when a file is missing here or has other contents.
std::vector<PluginFile> plugin_files_from(const Json& json);

Json to_json(const RankRunner::Loaded& loaded);
RankRunner::Loaded loaded_from(const Json& json);

}  // namespace fk
