// SPDX-License-Identifier: Apache-2.0
// The adapt engine for any program, so that tests can use their own (engine.hpp).
#pragma once
#include "core/engines/adapt/engine.hpp"
#include "core/exec/session.hpp"

namespace fk {

struct AdaptPrograms {
  Program &begin, &learn, &score;
};

// Serves the exchange until no request will come. `context`: most tokens of a text. Passes on
// exceptions of the programs.
void adapt(const AdaptPrograms& programs, Exchange& exchange, const AdaptOptions& options,
           int64_t context);

}  // namespace fk
