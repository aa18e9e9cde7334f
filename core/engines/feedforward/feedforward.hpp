// SPDX-License-Identifier: Apache-2.0
// The feedforward engine for any program, so that tests can use their own (engine.hpp).
#pragma once
#include "core/engines/feedforward/engine.hpp"
#include "core/exec/session.hpp"

namespace fk {

// Serves the exchange until no request will come. Passes on exceptions of the program.
void pass(Program& program, Exchange& exchange, const FeedforwardOptions& options);

}  // namespace fk
