// SPDX-License-Identifier: Apache-2.0
// Gains of strategies: estimates from the outcomes of programs, by family of ops and kind of
// device.
#pragma once
#include <string>
#include <vector>

#include "core/archive/program.hpp"

namespace fk {

// The gain of a program over its first parent.
struct Gain {
  double value = 1, low = 1, high = 1;  // of speeds over the baseline; low and high are certain
};
template <class Visitor>
void fields(Visitor& v, Gain& g) {
  v("value", g.value, "speed over the parent's speed");
  v("low", g.low, "its lower end over the parent's upper end");
  v("high", g.high, "its upper end over the parent's lower end");
}
// Nothing unless both are right and were timed on the same device with the same kind of cases.
std::optional<Gain> gain_over(const ProgramVerdict& child, const ProgramVerdict& parent);

struct StrategyEstimate {
  std::string strategy, family, kind;
  int64_t tries = 0, right = 0, faster = 0;
  double gain = 1, low = 1, high = 1;
  std::vector<std::string> examples;  // ids
};
template <class Visitor>
void fields(Visitor& v, StrategyEstimate& s) {
  v("strategy", s.strategy, "the words of its authors");
  v("family", s.family, "family of ops");
  v("kind", s.kind, "kind of device");
  v("tries", s.tries, "programs with it");
  v("right", s.right, "right ones of them");
  v("faster", s.faster, "ones whose interval is above the parent's");
  v("gain", s.gain, "estimated gain of the next try: a failure counts as no gain");
  v("low", s.low, "lower end of its 90 % interval");
  v("high", s.high, "upper end");
  v("examples", s.examples, "ids of the programs with the largest gains");
}

// Programs of any op. Estimates of this family and kind, the largest gain first. The mean of log
// gains moves to 0 by kPriorTries tries without gain, so one lucky try does not win.
constexpr double kPriorTries = 2;
std::vector<StrategyEstimate> strategies_of(const std::vector<JudgedProgram>& programs,
                                            const std::string& family, const std::string& kind);
// A strategy's name in the estimates: lower case, single blanks.
std::string strategy_key(const std::string& strategy);

}  // namespace fk
