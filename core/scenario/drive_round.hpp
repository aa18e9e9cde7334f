// SPDX-License-Identifier: Apache-2.0
// One drive of a worker with a set of requests, seen from the controller: the results and their
// times by the controller's clock. Invalid results end the worker.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "core/worker/rank_group.hpp"

namespace fk {

struct RequestResult {
  Request request;
  std::vector<int64_t> tokens;                   // by index; -1: missing
  std::vector<int64_t> order;                    // indices in the order of arrival
  std::vector<double> token_s;                   // times of arrival, in that order
  std::map<int64_t, std::vector<float>> logits;  // by position
  std::vector<NamedTensor> tensors;
  std::string failed;  // why the engine refused the request
  double done_s = 0;
  // Distance to the baseline's answer, if compared. 0: equal; 1: different from the first token on.
  double apart = 0;
};

struct Round {
  double start_s = 0, end_s = 0;
  std::map<uint64_t, RequestResult> requests;
  std::vector<NamedTensor> taps;  // in order; names are "phase:tap"
  double gap_s = 0;               // longest time without a sign of life
};

struct RoundOptions {
  int64_t vocab_size = 0;
  bool taps = false;
  double time_limit_s = 0;  // for the whole round; 0: only the worker's patience
  std::function<void(const std::string&)> progress;
};

// False when a rank has failed. `round` has the results until then.
bool drive_round(RankGroup& runner, const std::vector<Request>& requests,
                 const RoundOptions& options, Round& round);

}  // namespace fk
