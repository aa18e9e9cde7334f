// SPDX-License-Identifier: Apache-2.0
// The first rank of each machine but the broker's: it starts and holds the runners of its machine's
// ranks, their weights and its own block of the communicator, and says to the broker what it is
// asked. It ends with the broker, and everything here ends with it.
#pragma once
#include <vector>

#include "core/worker/remote/machines.hpp"

namespace fk {

// Serves until the broker ends, and returns an exit code. `ranks`: those of this machine, of which
// agent_of_rank() has all but the first. Error when there is no broker, or it refuses.
int lead_machine(const Launch& launch, const LinkPlace& place, const std::vector<int>& ranks,
                 double patience_s);

}  // namespace fk
