// SPDX-License-Identifier: Apache-2.0
// Checks that a checkpoint belongs to a model: the model reads each tensor, or lists it as unread.
#pragma once
#include <string>
#include <vector>

#include "core/engines/scenario.hpp"
#include "core/graph/builder.hpp"
#include "core/tensor/safetensors.hpp"

namespace fk {

struct CheckpointFit {
  // The model's configuration. If it ties the head and the checkpoint has another head, the result
  // is untied, as transformers 5 loads it.
  Config config;
  // for the user: unread tensors, and tensors that are read in another way
  std::vector<std::string> notes;
};

// Tests names, dtypes and scales of all tensors, but no values. Error with the first tensor that is
// unread, missing, or has an undeclared scale.
CheckpointFit fit_checkpoint(const std::string& arch, const Config& config,
                             const Checkpoint& checkpoint, const Catalog& catalog);

// The same for a scenario with a checkpoint. Sets its configuration and notes.
void fit_weights(Scenario& scenario, const Catalog& catalog);

}  // namespace fk
