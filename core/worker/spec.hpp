// SPDX-License-Identifier: Apache-2.0
// The controller's orders to a worker, and the worker's description of its session.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/exec/model.hpp"
#include "core/exec/select.hpp"
#include "core/exec/session.hpp"
#include "core/plugin/notes.hpp"

namespace fk {

struct PluginFile {
  std::filesystem::path path;
  Trust trust = Trust::baseline;
};

// A session to open. The weights come separately, as a descriptor.
struct SessionSpec {
  std::string arch;
  Config config;
  Limits limits;
  ProviderPolicy policy;
  std::string device = "cpu";
  bool graphs = true;                      // CUDA graphs, if the device supports them
  std::vector<int64_t> decode_sizes = {};  // as in Session::Options
  bool shares_states = false;              // in a block that can be given to other workers
};

// A rank's place among all ranks, and among those of its machine, which share cores and devices.
struct RankSeat {
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
};

// Weights for a worker: a sealed block of shared memory, or memory of the device.
struct WeightsHandle {
  int fd = -1;
  int64_t bytes = 0;
  bool on_device = false;
  uint64_t remote = 0;  // in place of a descriptor: their number on another machine
};

// Caches and other states of a session that two workers use in turn: one physical copy. Code that
// reads data it has not written in its own turn finds the other's data.
struct StatesHandle {
  int fd = -1;
  int64_t bytes = 0;
  uint64_t remote = 0;  // as for weights
};

struct NodeRow {
  std::string path, op, provider;
  int level = 1;
  std::vector<std::string> refusals;
};
struct PhaseInfo {
  std::string name;
  std::vector<NodeRow> nodes;
};
// A worker's own description: shown, never trusted.
struct SessionInfo {
  std::vector<PhaseInfo> phases;
  int64_t weights_bytes = 0, packed_bytes = 0, persistent_bytes = 0, states_bytes = 0,
          arena_bytes = 0, scratch_bytes = 0;
  int64_t pages = 0;
  int32_t device_threads = 0;
  std::string device;
};

// A worker's description of its session.
SessionInfo info_of(Session& session);

Json to_json(const SessionSpec& spec);
SessionSpec session_spec_from(const Json& json);  // Error when it is malformed
Json to_json(const RankSeat& seat);
RankSeat rank_seat_from(const Json& json);
Json to_json(const SessionInfo& info);
SessionInfo session_info_from(const Json& json);

}  // namespace fk
