// SPDX-License-Identifier: Apache-2.0
// Numbers of speed from what the broker saw, and how sure a comparison is.
#pragma once
#include <string>
#include <vector>

#include "core/referee/drive_round.hpp"

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

// Baseline time / candidate time of the same work, by pairs that ran next to each other.
struct Speedup {
  double median = 0, low = 0, high = 0;  // 95 % interval of the median by bootstrap; the range when
                                         // there are fewer than five pairs
  int64_t pairs = 0;
};
Speedup speedup_of(const std::vector<double>& baseline_s, const std::vector<double>& candidate_s);
// "faster", "slower" (the interval leaves 1 by more than 1 %), "same" (the interval lies within
// 1 +- 3 %), else "cannot tell"; also that below three pairs.
std::string speed_verdict(const Speedup& speedup);

}  // namespace fk
