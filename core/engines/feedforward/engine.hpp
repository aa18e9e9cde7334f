// SPDX-License-Identifier: Apache-2.0
// One pass per batch over one phase, for models without tokens. Axis B; the request's tensors are
// the inputs. The first axis of each output is B. Each output is reported per request as a tensor
// of its name, without that axis.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "core/exec/engine.hpp"

namespace fk {

// An output with one whole number for the whole batch, such as the intersections which a rasterizer
// found. Where it exceeds the room, the other outputs hold nothing valid.
struct FeedforwardCount {
  std::string output;
  int64_t room_of_request = 0;  // the room of a batch is max_batch times as large
  std::string key;              // of the configuration, which gives the room
};

struct FeedforwardOptions {
  std::string phase;
  std::vector<std::string> outputs;
  std::vector<RequestTensor> inputs = {};
  std::vector<FeedforwardCount> counts = {};  // all requests of a batch without room fail
};
std::unique_ptr<Engine> feedforward_engine(FeedforwardOptions options);

}  // namespace fk
