// SPDX-License-Identifier: Apache-2.0
// The speculate engine over any programs: what drive.hpp's speculate() does for a session, open to
// tests with programs of their own.
#pragma once
#include "core/engines/generate.hpp"

namespace fk {

struct SpeculateSetup {
  SpeculateOptions options;
  GenerateSetup generate;
};

// The phases of drive.hpp.
struct SpeculatePhases {
  Program &prefill, &verify, &accept, &extend, &draft;
};

struct SpeculateStats {
  int64_t steps = 0, tokens = 0;  // of requests that were verified, and what they got from it
  double mean() const {
    return steps > 0 ? static_cast<double>(tokens) / static_cast<double>(steps) : 0;
  }
};

// Serves the exchange until no request will come. Throws what a program throws.
SpeculateStats speculate(const SpeculatePhases& phases, Exchange& exchange,
                         const SpeculateSetup& setup);

}  // namespace fk
