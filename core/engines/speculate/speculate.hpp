// SPDX-License-Identifier: Apache-2.0
// The speculate engine for any programs, so that tests can use their own (engine.hpp).
#pragma once
#include "core/engines/generate/generate.hpp"
#include "core/engines/speculate/engine.hpp"

namespace fk {

struct SpeculateSetup {
  SpeculateOptions options;
  GenerateSetup generate;
};

// The phases that engine.hpp describes.
struct SpeculatePhases {
  Program &prefill, &verify, &accept, &extend, &draft;
};

struct SpeculateStats {
  int64_t steps = 0, tokens = 0;  // verified requests, summed over steps; tokens that they got
  double mean() const {
    return steps > 0 ? static_cast<double>(tokens) / static_cast<double>(steps) : 0;
  }
};

// Serves the exchange until no request will come. Passes on exceptions of a program.
SpeculateStats speculate(const SpeculatePhases& phases, Exchange& exchange,
                         const SpeculateSetup& setup);

}  // namespace fk
