// SPDX-License-Identifier: Apache-2.0
#include "core/referee/weight_block.hpp"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.hpp"

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

// Null where there is none.
std::unique_ptr<Checkpoint> opened(const std::string& folder) {
  return folder.empty() ? nullptr : std::make_unique<Checkpoint>(Checkpoint::open(folder));
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
  block.handle = {block.memory.fd(), static_cast<int64_t>(block.memory.bytes()), false};
  return block;
}

WeightBlock make_weight_block(const Model& model, const Catalog& catalog, const SessionSpec& spec,
                              const std::string& checkpoint, uint64_t seed,
                              const Progress& progress) {
  if (spec.device == "cpu") {
    const auto from = opened(checkpoint);
    return make_weight_block(model, catalog, spec.limits, from.get(), seed, progress);
  }
  WeightBlock block;
  block.table = weight_table(model, catalog, spec.limits);
  block.bytes = WeightLayout(*block.table).bytes;
  Runner::Options options;
  options.name = "weights";
  options.sends_fds = true;
  block.keeper = std::make_shared<Runner>(options);
  const auto kept = block.keeper->keep(spec, seed, checkpoint, [&](const Json& done) {
    if (progress && done.is_array() && done.size() == 2)
      progress(done[0].get<int64_t>(), done[1].get<int64_t>());
  });
  if (!kept) fail("weights", block.keeper->failure().sentence());
  block.exported = {new int(kept->fd), [](const int* fd) {
                      ::close(*fd);
                      delete fd;
                    }};
  block.handle = *kept;
  return block;
}

std::vector<WeightBlock> make_weight_blocks(const Model& model, const Catalog& catalog,
                                            const Limits& limits, const Checkpoint* checkpoint,
                                            uint64_t seed, const Progress& progress) {
  std::vector<WeightBlock> blocks;
  Limits own = limits;
  for (own.parallel.rank = 0; own.parallel.rank < limits.parallel.ranks(); ++own.parallel.rank)
    blocks.push_back(make_weight_block(model, catalog, own, checkpoint, seed, progress));
  return blocks;
}

std::vector<WeightBlock> make_weight_blocks(const Model& model, const Catalog& catalog,
                                            const SessionSpec& spec, const std::string& checkpoint,
                                            uint64_t seed, const Progress& progress) {
  std::vector<WeightBlock> blocks;
  SessionSpec own = spec;
  int64_t& rank = own.limits.parallel.rank;
  for (rank = 0; rank < spec.limits.parallel.ranks(); ++rank)
    blocks.push_back(make_weight_block(model, catalog, own, checkpoint, seed, progress));
  return blocks;
}

std::vector<WeightsHandle> handles_of(std::span<const WeightBlock> blocks) {
  std::vector<WeightsHandle> handles;
  for (const auto& block : blocks) handles.push_back(block.handle);
  return handles;
}

uint64_t WeightBlock::checksum() const {
  if (!keeper) return 0;
  const auto sum = keeper->checksum();
  if (!sum) fail("weights", keeper->failed() ? keeper->failure().sentence() : "no checksum");
  return *sum;
}

}  // namespace fk
