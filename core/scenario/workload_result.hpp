// SPDX-License-Identifier: Apache-2.0
// Timed rounds of a workload. Baseline and candidate run the same requests in pairs. The order
// alternates (A B B A), so that a drift of the machine hits both alike. Where speed is judged, a
// side has several processes in sequence (process_pairs.hpp).
#pragma once
#include <optional>

#include "core/engines/scenario.hpp"
#include "core/scenario/side.hpp"

namespace fk {

struct TimedSide {
  SpeedSamples samples;
  Round last;  // with its answers
  // Some requests of each measured round with their answers, under new numbers. They are chosen
  // after the answers, so that a side cannot know the audited rounds. A candidate's also include
  // the request that is furthest from the baseline's answer.
  Round some;
  std::vector<double> by_process_s;            // median time of a round, by process
  std::optional<RecordedAnswers> as_recorded;  // of the first round, if the load is recorded
  std::string why;                             // if it failed
  bool violation = false;                      // the failure is a broken rule
};
struct TimedPair {
  TimedSide baseline, candidate;
  std::vector<PairTimes> pairs;
  double slowest_s = 0;  // slowest round of the baseline
  double spent_s = 0;    // in all processes
};
struct TimedContext {
  const Workload& workload;
  const Scenario& scenario;
  uint64_t seed = 0;  // for the requests
  int64_t pairs = 0;  // measured pairs in one process
  int process = 0, processes = 1;
  double time_limit_s = 0;  // for all processes: no pair begins later; 0: none
  std::function<void(const std::string&)> progress;
};

// Measured pairs in each of `processes` processes: the workload's number, divided. At least two, so
// that each side goes first equally often. `judged`: for a verdict about speed.
int64_t pairs_of_process(const Workload& workload, int processes, bool judged);

// Seconds that a candidate may take when the baseline took `baseline_s`.
double candidate_limit(double baseline_s);

// Adds the work of one process of each side to `timed`. False when the baseline failed. A
// candidate's failure is in `timed`, and earlier measurements stay.
bool time_pair(Side& baseline, Side& candidate, const TimedContext& context, TimedPair& timed);
bool time_alone(Side& baseline, const TimedContext& context, TimedPair& timed);

WorkloadRow workload_row(const TimedSide& side, const Workload& workload);
// Distance of two answers to a request. 0: equal; 1: different from the first token on; less:
// different later. For results other than tokens, the largest difference as a share of the largest
// value.
double apart(const RequestResult& a, const RequestResult& b);
// Share of equal tokens at equal places.
double same_tokens(const Round& a, const Round& b);

}  // namespace fk
