// SPDX-License-Identifier: Apache-2.0
// The weights of a model, one copy for all workers of a machine. They are in a sealed block of
// shared memory made by the controller. On a device they are in memory kept by a process without
// plugins, because the controller has no CUDA context.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "core/base/io.hpp"
#include "core/exec/session.hpp"
#include "core/worker/remote/remote_calls.hpp"
#include "core/worker/runner.hpp"

namespace fk {

struct WeightBlock {
  std::shared_ptr<WeightTable> table;
  SharedMemory memory;  // host memory; empty for weights on a device
  int64_t bytes = 0;
  std::shared_ptr<Runner> keeper;       // the process with the device's memory
  std::shared_ptr<const int> exported;  // keeps the device's memory; closed with the block
  std::shared_ptr<RemoteCalls> remote;  // replaces the others on another machine
  WeightsHandle handle;
  // Checksum of weights on a device, to find a change by a candidate; 0 elsewhere, because host
  // memory is sealed. Error when the keeper has ended.
  // keeper has ended.
  uint64_t checksum() const;
};

// From the checkpoint, or from the seed if it is null.
WeightBlock make_weight_block(const Model& model, const Catalog& catalog, const Limits& limits,
                              const Checkpoint* checkpoint, uint64_t seed,
                              const Progress& progress);
// On the device of `spec`, from the checkpoint in a folder, or from the seed if the folder is
// empty. `local_rank`: the rank on its machine whose weights these are.
WeightBlock make_weight_block(const Model& model, const Catalog& catalog, const SessionSpec& spec,
                              const std::string& checkpoint, uint64_t seed,
                              const Progress& progress, int local_rank = 0);

// One block for each rank of the spec, with the rank's part of the weights. It is on the rank's
// device and machine; the checkpoint has to be on that machine too.
std::vector<WeightBlock> make_weight_blocks(const Model& model, const Catalog& catalog,
                                            const SessionSpec& spec, const std::string& checkpoint,
                                            uint64_t seed, const Progress& progress);
std::vector<WeightsHandle> handles_of(std::span<const WeightBlock> blocks);

}  // namespace fk
