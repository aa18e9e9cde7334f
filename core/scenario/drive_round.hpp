// SPDX-License-Identifier: Apache-2.0
// One drive of a runner with a set of requests, seen from outside: what came, and when by the
// broker's clock. Results that make no sense end the runner.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "core/worker/rank_group.hpp"

namespace fk {

struct RequestResult {
  Request request;
  std::vector<int64_t> tokens;                   // by index; -1: has not come
  std::vector<int64_t> order;                    // the indices in which they came
  std::vector<double> token_s;                   // when each came, in that order
  std::map<int64_t, std::vector<float>> logits;  // by position
  std::vector<NamedTensor> tensors;
  std::string failed;  // why the engine refused it
  double done_s = 0;
  // From the baseline's answer to the same, where they were compared: 0 equal, 1 from the first
  // token on.
  double apart = 0;
};

struct Round {
  double start_s = 0, end_s = 0;
  std::map<uint64_t, RequestResult> requests;
  std::vector<NamedTensor> taps;  // in order; names are "phase:tap"
  double gap_s = 0;               // the longest time without a sign of life
};

struct RoundOptions {
  int64_t vocab_size = 0;
  bool taps = false;
  double time_limit_s = 0;  // for the whole round; 0: none but the runner's patience
  std::function<void(const std::string&)> progress;
};

// False when a rank has failed; what came until then is in `round`.
bool drive_round(RankGroup& runner, const std::vector<Request>& requests,
                 const RoundOptions& options, Round& round);

}  // namespace fk
