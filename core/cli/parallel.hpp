// SPDX-License-Identifier: Apache-2.0
// The options --tp and --ep of verbs that run models.
#pragma once
#include <optional>
#include <string>

#include "core/cli/verb.hpp"
#include "core/runtime/drive.hpp"

namespace fk {

// Both into `parallel`, which outlives the parsing.
void add_parallel_options(const Options& app, Parallel& parallel);
// Error when the degrees do not go together.
void check_parallel(const Parallel& parallel);
// Where a launcher (mpirun, srun) has started a process for every rank: in the first one waits for
// the others, on this machine and on others, and returns nothing; in the others serves until that
// one ends, and returns the exit code. Returns nothing without a launcher. Error when their number
// is not that of the ranks.
std::optional<int> join_launch(const Parallel& parallel);
// ", tp 2", ", tp 2, ep 2"; empty for one rank.
std::string parallel_text(const Parallel& parallel);

}  // namespace fk
