// SPDX-License-Identifier: Apache-2.0
// Numbers of speed from what the broker saw, and how sure a comparison is.
#pragma once
#include <string>
#include <vector>

#include "core/scenario/drive_round.hpp"

namespace fk {

struct Figure {
  double median = 0, p10 = 0, p90 = 0;
  int64_t count = 0;
};
// Order statistics with linear interpolation; all zero for no values.
Figure figure_of(std::vector<double> values);

// Samples of one side and workload, over its rounds.
struct SpeedSamples {
  std::vector<double> total_s;           // by round
  std::vector<double> prefill_tokens_s;  // by round: prompt tokens until the last first token
  // By round: tokens after the first of each request, counted from the last first token where all
  // requests begin together, else from the first one (then prompts of others are read meanwhile).
  std::vector<double> decode_tokens_s;
  std::vector<double> first_token_s;  // by request
  std::vector<double> token_s;        // by request: mean time between its tokens
  // `together`: the requests of the round are one batch.
  void add(const Round& round, bool together);
};

// The same requests, driven by both sides one after the other. A side has one process at a time;
// `process` counts those of a side.
struct PairTimes {
  int process = 0;
  double baseline_s = 0, candidate_s = 0;
};

// How often the candidate's time fits into the baseline's, and the 95 % interval of that.
//
// A process may be quick or slow for its whole life: where its memory lies and which cores its
// threads got is decided once. Rounds of one process share that luck, so many rounds of one process
// say little. Each pair of processes therefore counts once, with the median log ratio of its
// rounds, and the interval is Student's t of these medians. Their scatter holds what differs
// between processes and what differs within one.
struct Speedup {
  double ratio = 0, low = 0, high = 0;  // high is infinite, low 0: of one process, nothing is known
  std::vector<double> by_process;       // the ratio of each pair of processes
  int64_t pairs = 0;                    // of rounds
};
Speedup speedup_of(const std::vector<PairTimes>& pairs);
// "faster", "slower" (the interval leaves 1 by more than 1 %), "same" (the interval lies within
// 1 +- 3 %), else "cannot tell".
std::string speed_verdict(const Speedup& speedup);

}  // namespace fk
