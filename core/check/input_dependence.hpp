// SPDX-License-Identifier: Apache-2.0
// Does an instance look at all of its input in every call? One that was called with some contents
// is called with others, and with others that are almost the same.
#pragma once
#include <string>

#include "core/check/conformance.hpp"

namespace fk {

struct StaleFinding {
  bool kept = false;  // right for the same contents in a first call: something of others was kept
  double worst = 0;   // else: the largest error as a share of what is allowed
  std::string text;   // what is wrong after which contents; empty: nothing
};

// `values` are those of the case's frames; nothing is
// asked where no oracle takes the case. Small cases only: the reference answers for each.
StaleFinding stale(const ConformanceCase& c, const Oracles& oracles, const Variant& variant,
                   const CaseValues& values, const ConformanceCall& call);

}  // namespace fk
