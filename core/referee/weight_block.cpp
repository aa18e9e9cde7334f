// SPDX-License-Identifier: Apache-2.0
#include "core/referee/weight_block.hpp"

#include <algorithm>
#include <thread>

namespace fk {

namespace {

WeightBlock empty_block(const Model& model, const Catalog& catalog, const Limits& limits) {
  WeightBlock block;
  block.table = weight_table(model, catalog, limits);
  block.bytes = WeightLayout(*block.table).bytes;
  block.memory =
      SharedMemory::create("fk-weights", static_cast<size_t>(std::max<int64_t>(block.bytes, 1)));
  return block;
}

}  // namespace

WeightBlock make_weight_block(const Model& model, const Catalog& catalog, const Limits& limits,
                              const Checkpoint* checkpoint, uint64_t seed,
                              const Progress& progress) {
  WeightBlock block = empty_block(model, catalog, limits);
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  fill_weights(*block.table, checkpoint, seed, static_cast<std::byte*>(block.memory.data()),
               threads, progress);
  block.memory.seal_read_only();
  return block;
}

}  // namespace fk
