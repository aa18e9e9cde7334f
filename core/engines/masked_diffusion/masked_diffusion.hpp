// SPDX-License-Identifier: Apache-2.0
// The masked diffusion engine for any program, so that tests can use their own (engine.hpp).
#pragma once
#include "core/engines/masked_diffusion/engine.hpp"
#include "core/exec/session.hpp"

namespace fk {

struct MaskedDiffusionSetup {
  MaskedDiffusionOptions options;
  int64_t max_context = 0, vocab_size = 0;
};

// Serves the exchange until no request will come. Passes on exceptions of the program.
void diffuse(Program& program, Exchange& exchange, const MaskedDiffusionSetup& setup);

// Number of tokens that step `step` of `steps` fixes in a block of `count` tokens.
int64_t fixed_in_step(int64_t count, int64_t steps, int64_t step);

}  // namespace fk
