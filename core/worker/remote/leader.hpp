// SPDX-License-Identifier: Apache-2.0
// The leader is the first rank of each machine except the controller's. It starts and holds the
// workers of its machine's ranks, their weights, and its own block of the communicator. It answers
// the controller's questions. It ends with the controller, and all its processes end with it.
#pragma once
#include <vector>

#include "core/worker/remote/machines.hpp"

namespace fk {

// Serves until the controller ends, and returns an exit code. `ranks`: the ranks of this machine;
// agent_of_rank() has all but the first. Error when there is no controller, or it refuses.
int lead_machine(const Launch& launch, const LinkPlace& place, const std::vector<int>& ranks,
                 double patience_s);

}  // namespace fk
