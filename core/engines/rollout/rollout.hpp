// SPDX-License-Identifier: Apache-2.0
// The rollout engine for any program, so that tests can use their own (engine.hpp).
#pragma once
#include "core/engines/rollout/engine.hpp"
#include "core/exec/session.hpp"

namespace fk {

struct RolloutPrograms {
  Program &prompt, &frame, &step, &decode;
};

// Serves the exchange until no request will come. Passes on exceptions of the programs.
void rollout(const RolloutPrograms& programs, Exchange& exchange, const RolloutOptions& options);

}  // namespace fk
