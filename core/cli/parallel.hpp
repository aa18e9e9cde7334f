// SPDX-License-Identifier: Apache-2.0
// The options --tp, --ep and --overlap of verbs that run models.
#pragma once
#include <optional>
#include <string>

#include "core/cli/verb.hpp"
#include "core/exec/model.hpp"

namespace fk {

// All into `parallel`, which outlives the parsing.
void add_parallel_options(const Options& app, Parallel& parallel);
// Error when they do not go together.
void check_parallel(const Parallel& parallel);
// They go into a scenario's limits, which may want overlap wherever there is tensor parallelism.
void set_parallel(Limits& limits, const Parallel& parallel);
// Where a launcher (mpirun, srun) has started a process for every rank: in the first one waits for
// the others, on this machine and on others, and returns nothing; in the others serves until that
// one ends, and returns the exit code. Returns nothing without a launcher. Error when their number
// is not that of the ranks.
std::optional<int> join_launch(const Parallel& parallel);

}  // namespace fk
