// SPDX-License-Identifier: Apache-2.0
// The pass engine over any program: what drive.hpp's pass() does for a session.
#pragma once
#include "core/exec/model.hpp"
#include "core/exec/session.hpp"

namespace fk {

// Serves the exchange until no request will come. Throws what the program throws.
void pass(Program& program, Exchange& exchange, std::vector<Model::RequestTensor> tensors,
          const FeedforwardOptions& options);

}  // namespace fk
