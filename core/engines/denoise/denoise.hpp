// SPDX-License-Identifier: Apache-2.0
// The denoise engine for any program, so that tests can use their own (engine.hpp).
#pragma once
#include "core/engines/denoise/engine.hpp"
#include "core/exec/session.hpp"

namespace fk {

// Serves the exchange until no request will come. `end`: null without this phase. Passes on
// exceptions of the programs.
void denoise(Program& begin, Program& step, Program* end, Exchange& exchange,
             const DenoiseOptions& options);

}  // namespace fk
