// SPDX-License-Identifier: Apache-2.0
// Compares a verdict with its repetition with the same seeds. Correctness must be equal; times must
// lie within each other's intervals.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/store/receipt.hpp"

namespace fk {

struct Deviation {
  std::string what, was, now;
  bool matters = true;  // false: expected, or without consequence
};

// Changed inputs of the verdict. Each may explain a different verdict, but none is a difference of
// verdicts.
std::vector<Deviation> key_differences(const VerdictKey& was, const VerdictKey& now);
// Differences between the verdicts. A verdict is reproduced if none of them matters.
std::vector<Deviation> verdict_differences(const Verdict& was, const Verdict& now);

}  // namespace fk
