// SPDX-License-Identifier: Apache-2.0
// Is a verdict the same when it is reached again, with the same seeds? Correctness must be equal;
// times must lie within each other's intervals.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/store/receipt.hpp"

namespace fk {

struct Deviation {
  std::string what, was, now;
  bool matters = true;  // false: to be expected, or of no consequence
};

// What the answer depends on and is not as it was. Each may explain another answer, none is one.
std::vector<Deviation> key_differences(const VerdictKey& was, const VerdictKey& now);
// What was said and is not said again. Reproduced: none of them matters.
std::vector<Deviation> verdict_differences(const Verdict& was, const Verdict& now);

}  // namespace fk
