// SPDX-License-Identifier: Apache-2.0
// Messages between controller and leaders about workers, as JSON. A leader's messages are checked
// and cleaned like a worker's.
#pragma once
#include <string>
#include <vector>

#include "core/worker/runner.hpp"

namespace fk {

// All options except local ones: the starting process and the callbacks.
Json to_json(const Runner::Options& options);
Runner::Options runner_options_from(const Json& json);

Json to_json(const RunnerFailure& failure);
RunnerFailure runner_failure_from(const Json& json);
std::string clean_log(const Json& text);  // a process's output without control characters

// With a hash of each existing file.
Json to_json(const std::vector<PluginFile>& plugins);
// Error, with a sentence, when a file is missing on this machine or has other contents.
std::vector<PluginFile> plugin_files_from(const Json& json);

Json to_json(const RankRunner::Loaded& loaded);
RankRunner::Loaded loaded_from(const Json& json);

}  // namespace fk
