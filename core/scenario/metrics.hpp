// SPDX-License-Identifier: Apache-2.0
// Speeds from the controller's times, and the certainty of a comparison.
#pragma once
#include <string>
#include <vector>

#include "core/scenario/drive_round.hpp"

namespace fk {

struct Figure {
  double median = 0, p10 = 0, p90 = 0;
  int64_t count = 0;
};
// Order statistics with linear interpolation; all zero without values.
Figure figure_of(std::vector<double> values);

// Samples of one side and workload over its rounds.
struct SpeedSamples {
  std::vector<double> total_s;  // by round
  // By round: prompt tokens until the last first token. None if requests arrive later.
  std::vector<double> prefill_tokens_s;
  // By round: tokens after the first one of each request, per second. The time begins at the last
  // first token if all requests begin together, else at the first one; then others' prompts are
  // read meanwhile.
  std::vector<double> decode_tokens_s;
  std::vector<double> first_token_s;  // by request
  std::vector<double> token_s;        // by request: mean time between its tokens
  // `together`: the requests of the round are one batch.
  void add(const Round& round, bool together);
};

// The same requests, driven by both sides one after the other. A side has one process at a time;
// `process` is its number.
struct PairTimes {
  int process = 0;
  double baseline_s = 0, candidate_s = 0;
};

// The baseline's time over the candidate's, with its 95 % interval.
//
// A process may be fast or slow for its whole life, by the place of its memory and the cores of its
// threads. All of its rounds share that luck, so many rounds of one process say little. Each pair
// of processes therefore counts once, with the median log ratio of its rounds. The interval is
// Student's t of these medians. Their scatter includes differences between processes and within
// one.
struct Speedup {
  double ratio = 0, low = 0, high = 0;  // one process gives no interval: low is 0, high infinite
  std::vector<double> by_process;       // the ratio of each pair of processes
  int64_t pairs = 0;                    // of rounds
};
Speedup speedup_of(const std::vector<PairTimes>& pairs);
// "faster" or "slower": the interval is more than 1 % away from 1. "same": the interval is within 1
// +- 3 %. Else "cannot tell".
std::string speed_verdict(const Speedup& speedup);

}  // namespace fk
