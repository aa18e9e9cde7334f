// SPDX-License-Identifier: Apache-2.0
// One drive of a worker with a set of requests, seen from the controller: the results and their
// times by the controller's clock. Invalid results end the worker.
#pragma once
#include <functional>
#include <map>
#include <vector>

#include "core/worker/rank_group.hpp"

namespace fk {

struct Round {
  double start_s = 0, end_s = 0;
  Answers requests;
  std::vector<NamedTensor> taps;  // in order; names are "phase:tap"
  double gap_s = 0;               // longest time without a sign of life
  // When requests arrived, if not all at the start; by id.
  std::map<uint64_t, double> arrived_s;
};

struct RoundOptions {
  int64_t vocab_size = 0;  // tokens are below it; rows of logits have this length
  bool taps = false;
  // When each request arrives, in seconds after the start and in rising order; empty: all at once.
  // Time in which no request is open is left out.
  std::vector<double> arrives_s;
  double time_limit_s = 0;  // for the whole round; 0: only the worker's patience
  std::function<void(const std::string&)> progress;
};

// False when a rank has failed. `round` has the results until then.
bool drive_round(RankGroup& runner, const std::vector<Request>& requests,
                 const RoundOptions& options, Round& round);

}  // namespace fk
