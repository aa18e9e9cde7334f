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

struct FeedforwardOptions {
  std::string phase;
  std::vector<std::string> outputs;
  std::vector<RequestTensor> inputs = {};
};
std::unique_ptr<Engine> feedforward_engine(FeedforwardOptions options);

}  // namespace fk
