// SPDX-License-Identifier: Apache-2.0
// The diffuse engine over any program: what drive.hpp's diffuse() does for a session, open to tests
// with programs of their own.
#pragma once
#include "core/exec/model.hpp"
#include "core/exec/session.hpp"

namespace fk {

struct MaskedDiffusionSetup {
  MaskedDiffusionOptions options;
  int64_t max_context = 0, vocab_size = 0;
};

// Serves the exchange until no request will come. Throws what the program throws.
void diffuse(Program& program, Exchange& exchange, const MaskedDiffusionSetup& setup);

// How many of a block's `count` tokens are fixed in its step `step` of `steps`.
int64_t fixed_in_step(int64_t count, int64_t steps, int64_t step);

}  // namespace fk
