// SPDX-License-Identifier: Apache-2.0
// The options --tp and --ep of verbs that run models.
#pragma once
#include <string>

#include "core/cli/verb.hpp"
#include "core/runtime/drive.hpp"

namespace fk {

// Both into `parallel`, which outlives the parsing.
void add_parallel_options(CLI::App& app, Parallel& parallel);
// Error when the degrees do not go together.
void check_parallel(const Parallel& parallel);
// ", tp 2", ", tp 2, ep 2"; empty for one rank.
std::string parallel_text(const Parallel& parallel);

}  // namespace fk
