// SPDX-License-Identifier: Apache-2.0
// The weights of a model, once for all runners of a machine: in a sealed block of shared memory
// that the broker makes, or in memory of the device that a process without plugins keeps, since the
// broker has no CUDA context.
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
  SharedMemory memory;
  int64_t bytes = 0;
  std::shared_ptr<Runner> keeper;
  std::shared_ptr<const int> exported;  // closed with the block: until then the device keeps it
  std::shared_ptr<RemoteCalls> remote;  // instead of all of this: of a rank on another machine
  WeightsHandle handle;
  // Of the weights on a device, 0 elsewhere: host memory is sealed. Error when the keeper is gone.
  uint64_t checksum() const;
};

// From the checkpoint, or from the seed when it is null.
WeightBlock make_weight_block(const Model& model, const Catalog& catalog, const Limits& limits,
                              const Checkpoint* checkpoint, uint64_t seed,
                              const Progress& progress);
// Where `spec` says, from the checkpoint in a folder, or from the seed when that is empty.
// `local_rank`: which of its machine's ranks they are of.
WeightBlock make_weight_block(const Model& model, const Catalog& catalog, const SessionSpec& spec,
                              const std::string& checkpoint, uint64_t seed,
                              const Progress& progress, int local_rank = 0);

// The same weights in a block for each rank of the spec's, of which every rank has its part: on the
// device of its rank, and on its machine, where the checkpoint has to be, too.
std::vector<WeightBlock> make_weight_blocks(const Model& model, const Catalog& catalog,
                                            const SessionSpec& spec, const std::string& checkpoint,
                                            uint64_t seed, const Progress& progress);
std::vector<WeightsHandle> handles_of(std::span<const WeightBlock> blocks);

}  // namespace fk
