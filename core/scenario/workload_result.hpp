// SPDX-License-Identifier: Apache-2.0
// Timed rounds of a workload. Baseline and candidate run the same requests in pairs, and which of
// the two goes first alternates (A B B A), so that drift of the machine hits both alike. Where
// speed is judged, a side has several processes, one after the other (process_pairs.hpp).
#pragma once
#include "core/engines/scenario.hpp"
#include "core/scenario/side.hpp"

namespace fk {

struct TimedSide {
  SpeedSamples samples;
  Round last;  // with its answers
  // Some requests of every measured round with their answers, chosen when these were there, under
  // numbers of their own: which rounds are looked at is not known to who answers. Of a candidate's
  // rounds also the one that is furthest apart from the baseline's answer.
  Round some;
  std::vector<double> by_process_s;  // median time of a round, by process
  std::string why;                   // when it failed
  bool violation = false;            // it failed by breaking a rule
};
struct TimedPair {
  TimedSide baseline, candidate;
  std::vector<PairTimes> pairs;
  double slowest_s = 0;  // round of the baseline
  double spent_s = 0;    // in all processes
};
struct TimedContext {
  const Workload& workload;
  const Scenario& scenario;
  uint64_t seed = 0;  // of the requests
  int64_t pairs = 0;  // that are measured in one process
  int process = 0, processes = 1;
  double time_limit_s = 0;  // for all processes: in time no further pair begins; 0: none
  std::function<void(const std::string&)> progress;
};

// Measured pairs in each of so many processes: what the workload asks for, divided, and at least
// two, so that each side goes first as often as the other. `judged`: for a verdict about speed.
int64_t pairs_of_process(const Workload& workload, int processes, bool judged);

// Seconds that a candidate may take for what took the baseline so long.
double candidate_limit(double baseline_s);

// What one process of each side does, added to `timed`. False when the baseline failed; a failed
// candidate is in `timed`, what was measured stays.
bool time_pair(Side& baseline, Side& candidate, const TimedContext& context, TimedPair& timed);
bool time_alone(Side& baseline, const TimedContext& context, TimedPair& timed);

WorkloadRow workload_row(const TimedSide& side, const Workload& workload);
// 0 where two answers to a request are equal; 1 where they part with their first token, less where
// they part later. Of results that are no tokens the largest difference, as a share of the largest.
double apart(const RequestResult& a, const RequestResult& b);
// Share of equal tokens at equal places.
double same_tokens(const Round& a, const Round& b);

}  // namespace fk
