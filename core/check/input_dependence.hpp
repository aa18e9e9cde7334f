// SPDX-License-Identifier: Apache-2.0
// Tests that an instance reads all of its input in every call. An instance is called with some
// contents, then with others, then with contents that differ in few elements.
#pragma once
#include <string>

#include "core/check/conformance.hpp"

namespace fk {

struct StaleFinding {
  bool kept = false;  // a first call with the same contents is right: the instance kept something
  double worst = 0;   // otherwise: the largest error as a share of the allowed error
  std::string text;   // the fault and the contents before it; empty: none
};

// `values` are those of the case's frames. Tests nothing when no oracle takes the case. Only for
// small cases, because the reference answers each call.
StaleFinding stale(const ConformanceCase& c, const Oracles& oracles, const Variant& variant,
                   const CaseValues& values, const ConformanceCall& call);

}  // namespace fk
