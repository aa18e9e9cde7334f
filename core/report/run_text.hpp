// SPDX-License-Identifier: Apache-2.0
// A RunReport as text and as JSON, with the same content. docs/report.md describes the JSON.
#pragma once
#include <string>

#include "core/base/json.hpp"
#include "core/scenario/run_report.hpp"

namespace fk {

// Examples: ", tp 2", ", tp 2, ep 2, overlap"; empty for one rank.
std::string parallel_text(const Parallel& parallel);
// The last lines that a process printed, each after a bar.
std::string printed_lines(const std::string& log);
std::string run_text(const RunReport& report, bool colour);
Json run_json(const RunReport& report);
Json runs_json(const std::vector<RunReport>& reports);  // of a list of scenarios

}  // namespace fk
