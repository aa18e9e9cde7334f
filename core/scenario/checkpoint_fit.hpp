// SPDX-License-Identifier: Apache-2.0
// Decides if a checkpoint belongs to a model. The model reads each tensor, or lists it as one that
// it leaves.
#pragma once
#include <string>
#include <vector>

#include "core/engines/scenario.hpp"
#include "core/graph/builder.hpp"
#include "core/tensor/safetensors.hpp"

namespace fk {

struct CheckpointFit {
  // The model's configuration. Tied there, with another head in the checkpoint: untied, as
  // transformers 5 loads it.
  Config config;
  std::vector<std::string> notes;  // for the user: what is not read, or read in another way
};

// Looks at names, dtypes and scales of all tensors, not at values. Error names the first tensor
// that nobody reads, one that is missing, or one whose scale is not declared.
CheckpointFit fit_checkpoint(const std::string& arch, const Config& config,
                             const Checkpoint& checkpoint, const Catalog& catalog);

// The same for a scenario that has a checkpoint: it gets the configuration and the notes.
void fit_weights(Scenario& scenario, const Catalog& catalog);

}  // namespace fk
