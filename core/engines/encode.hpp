// SPDX-License-Identifier: Apache-2.0
// The encode engine for any program; encode() in core/exec/model.hpp runs it for a session.
#pragma once
#include "core/exec/model.hpp"
#include "core/exec/session.hpp"

namespace fk {

struct EncodeSetup {
  EncodeOptions options;
  int64_t max_context = 0, vocab_size = 0;
};

// Serves the exchange until no request will come. Passes on exceptions of the program.
void encode(Program& program, Exchange& exchange, const EncodeSetup& setup);

}  // namespace fk
