// SPDX-License-Identifier: Apache-2.0
// The encode engine for any program, so that tests can use their own (engine.hpp).
#pragma once
#include "core/engines/encode/engine.hpp"
#include "core/exec/session.hpp"

namespace fk {

struct EncodeSetup {
  EncodeOptions options;
  int64_t max_context = 0, vocab_size = 0;
};

// Serves the exchange until no request will come. Passes on exceptions of the program.
void encode(Program& program, Exchange& exchange, const EncodeSetup& setup);

}  // namespace fk
