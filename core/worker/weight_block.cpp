// SPDX-License-Identifier: Apache-2.0
// Makes weights in one of three places: shared memory of this process, device memory of a process
// without plugins, or another machine by its leader.
#include "core/worker/weight_block.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/worker/remote/messages.hpp"

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

// Null for an empty folder.
std::unique_ptr<Checkpoint> opened(const std::string& folder, const Config& config) {
  return folder.empty() ? nullptr : std::make_unique<Checkpoint>(Checkpoint::open(folder, config));
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
  block.handle.fd = block.memory.fd();
  block.handle.bytes = static_cast<int64_t>(block.memory.bytes());
  return block;
}

WeightBlock make_weight_block(const Model& model, const Catalog& catalog, const SessionSpec& spec,
                              const std::string& checkpoint, uint64_t seed,
                              const Progress& progress, int local_rank) {
  if (spec.device == "cpu") {
    const auto from = opened(checkpoint, spec.config);
    return make_weight_block(model, catalog, spec.limits, from.get(), seed, progress);
  }
  WeightBlock block;
  block.table = weight_table(model, catalog, spec.limits);
  block.bytes = WeightLayout(*block.table).bytes;
  Runner::Options options;
  options.name = "weights";
  options.sends_fds = true;
  block.keeper = std::make_shared<Runner>(options);
  const auto kept = block.keeper->keep(spec, seed, checkpoint, local_rank, [&](const Json& news) {
    const auto bytes = from_fields<messages::BytesDone>(news, "news of weights");
    if (progress) progress(bytes.done, bytes.total);
  });
  if (!kept) fail("weights", block.keeper->failure().sentence());
  block.exported = {new int(kept->fd), [](const int* fd) {
                      ::close(*fd);
                      delete fd;
                    }};
  block.handle = *kept;
  return block;
}

namespace {

constexpr double kUntilItIsGone = 1e9;  // seconds; RemoteCalls::gone() ends the wait

// The answer of a leader about its rank's weights. Error with the leader's reason.
template <class Message>
typename Message::Answer said_of_weights(RemoteCalls& calls, const Message& question) {
  const auto answer =
      calls.ask(message_json(question), kUntilItIsGone, [](const Json&) { return true; });
  const std::string who = "weights of " + calls.machine().who();
  if (!answer) fail(who, calls.gone());
  auto said = from_fields<typename Message::Answer>(*answer, who, kForeignMessage);
  if (!said.error.empty())
    fail(who, "on " + calls.machine().name() + ": " + excerpt(said.error, 1024));
  return said;
}

// Fills a block that has its table. The tables are made before, because a model serves one thread
// at a time.
void fill_remotely(WeightBlock& block, Machine& machine, const SessionSpec& spec,
                   const std::string& checkpoint, uint64_t seed) {
  const int rank = static_cast<int>(spec.limits.parallel.rank),
            size = static_cast<int>(spec.limits.parallel.ranks());
  block.remote = std::make_shared<RemoteCalls>(
      machine,
      message_json(messages::OpenWeights{
          {spec, seed,
           checkpoint.empty() ? checkpoint : std::filesystem::absolute(checkpoint).string(),
           seat_of_rank(rank, size).local_rank}}));
  if (said_of_weights(*block.remote, messages::WeightsStart{}).bytes != block.bytes)
    fail("weights of " + machine.who(), "on " + machine.name() + " they have another size");
  block.handle.bytes = block.bytes;
  block.handle.remote = block.remote->id();
}

}  // namespace

std::vector<WeightBlock> make_weight_blocks(const Model& model, const Catalog& catalog,
                                            const SessionSpec& spec, const std::string& checkpoint,
                                            uint64_t seed, const Progress& progress) {
  const int size = static_cast<int>(spec.limits.parallel.ranks());
  std::vector<WeightBlock> blocks(static_cast<size_t>(size));
  std::vector<SessionSpec> specs(static_cast<size_t>(size), spec);
  for (int rank = 0; rank < size; ++rank) {
    const auto at = static_cast<size_t>(rank);
    specs[at].limits.parallel.rank = rank;
    if (!machine_of_rank(rank)) continue;
    blocks[at].table = weight_table(model, catalog, specs[at].limits);
    blocks[at].bytes = WeightLayout(*blocks[at].table).bytes;
  }
  // One block after the other on each machine, which has threads for one; all machines at once.
  std::vector<std::future<void>> others;
  for (const auto& machine : machines())
    others.push_back(std::async(std::launch::async, [&blocks, &specs, &machine, &checkpoint, seed] {
      for (const int rank : machine->ranks()) {
        const auto at = static_cast<size_t>(rank);
        fill_remotely(blocks[at], *machine, specs[at], checkpoint, seed);
      }
    }));
  for (int rank = 0; rank < size; ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (!machine_of_rank(rank))
      blocks[at] = make_weight_block(model, catalog, specs[at], checkpoint, seed, progress,
                                     seat_of_rank(rank, size).local_rank);
  }
  for (auto& other : others) other.get();
  return blocks;
}

std::vector<WeightsHandle> handles_of(std::span<const WeightBlock> blocks) {
  std::vector<WeightsHandle> handles;
  for (const auto& block : blocks) handles.push_back(block.handle);
  return handles;
}

uint64_t WeightBlock::checksum() const {
  if (remote) {
    return said_of_weights(*remote, messages::WeightsChecksum{}).sum;
  }
  if (!keeper) return 0;
  const auto sum = keeper->checksum();
  if (!sum) fail("weights", keeper->failed() ? keeper->failure().sentence() : "no checksum");
  return *sum;
}

}  // namespace fk
