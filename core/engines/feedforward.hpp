// SPDX-License-Identifier: Apache-2.0
// The feedforward engine for any program; pass() in core/exec/model.hpp runs it for a session.
#pragma once
#include "core/exec/model.hpp"
#include "core/exec/session.hpp"

namespace fk {

// Serves the exchange until no request will come. Passes on exceptions of the program.
void pass(Program& program, Exchange& exchange, std::vector<Model::RequestTensor> tensors,
          const FeedforwardOptions& options);

}  // namespace fk
