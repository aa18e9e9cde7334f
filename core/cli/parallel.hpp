// SPDX-License-Identifier: Apache-2.0
// The options --tp, --ep and --overlap of verbs that run models.
#pragma once
#include <optional>
#include <string>

#include "core/cli/verb.hpp"
#include "core/exec/model.hpp"

namespace fk {

// The options write into `parallel`, which outlives the parsing.
void add_parallel_options(const Options& app, Parallel& parallel);
// Error when the options contradict each other.
void check_parallel(const Parallel& parallel);
// Copies the options into a scenario's limits. A scenario may ask for overlap with any tensor
// parallelism.
void set_parallel(Limits& limits, const Parallel& parallel);
// For a launcher (mpirun, srun) with a process per rank. The first process waits for the others, on
// all machines, and returns nothing. The others serve until the first one ends, and return the exit
// code. Without a launcher returns nothing. Error when there is another number of processes than
// ranks.
std::optional<int> join_launch(const Parallel& parallel);

}  // namespace fk
