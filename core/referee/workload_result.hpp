// SPDX-License-Identifier: Apache-2.0
// Timed rounds of a workload. Baseline and candidate run the same requests in pairs, and which of
// the two goes first alternates (A B B A), so that drift of the machine hits both alike.
#pragma once
#include "core/referee/side.hpp"
#include "core/runtime/scenario.hpp"

namespace fk {

struct TimedSide {
  SpeedSamples samples;
  Round last;  // with its answers
  // Some requests of every measured round with their answers, chosen when these were there, under
  // numbers of their own: which rounds are looked at is not known to who answers. Of a candidate's
  // rounds also the one that is furthest apart from the baseline's answer.
  Round some;
  std::string why;  // when it failed
};
struct TimedPair {
  TimedSide baseline, candidate;
};
struct TimedContext {
  const Workload& workload;
  const Scenario& scenario;
  uint64_t seed = 0;        // of the requests
  bool many = false;        // enough pairs for a verdict about speed
  double time_limit_s = 0;  // after which no further pair begins
  std::function<void(const std::string&)> progress;
};

// Seconds that a candidate may take for what took the baseline so long.
double candidate_limit(double baseline_s);

// False when the baseline failed; a failed candidate is in `timed`, what was measured stays.
bool time_pair(Side& baseline, Side& candidate, const TimedContext& context, TimedPair& timed);
bool time_alone(Side& baseline, const TimedContext& context, TimedPair& timed);

WorkloadRow workload_row(const TimedSide& side, const Workload& workload);
// 0 where two answers to a request are equal; 1 where they part with their first token, less where
// they part later. Of results that are no tokens the largest difference, as a share of the largest.
double apart(const RequestResult& a, const RequestResult& b);
// Share of equal tokens at equal places.
double same_tokens(const Round& a, const Round& b);

}  // namespace fk
