// SPDX-License-Identifier: Apache-2.0
// The weights of a model in one sealed block of shared memory, made by the broker.
#pragma once
#include <memory>

#include "core/base/io.hpp"
#include "core/runtime/session.hpp"

namespace fk {

struct WeightBlock {
  std::shared_ptr<WeightTable> table;
  SharedMemory memory;
  int64_t bytes = 0;
};

// From the checkpoint, or from the seed when it is null.
WeightBlock make_weight_block(const Model& model, const Catalog& catalog, const Limits& limits,
                              const Checkpoint* checkpoint, uint64_t seed,
                              const Progress& progress);

}  // namespace fk
