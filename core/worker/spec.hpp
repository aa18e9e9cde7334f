// SPDX-License-Identifier: Apache-2.0
// The things that the controller tells a worker to load and open, and the worker's description of
// its session.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/field_list.hpp"
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

// The answer to messages::Load.
struct Loaded {
  struct Refused {
    std::string plugin, op, why;
    FK_FIELDS(plugin, op, why)
  };
  std::vector<std::string> errors;  // by file; empty: loaded
  std::vector<Refused> refused;     // ops whose contract does not match
  FK_FIELDS(errors, refused)
};

Config no_config();  // an empty object

// A session to open. The weights come separately, as a descriptor.
struct SessionSpec {
  std::string arch;
  Config config = no_config();
  Limits limits;
  ProviderPolicy policy;
  std::string device = "cpu";
  bool graphs = true;                      // CUDA graphs, if the device supports them
  std::vector<int64_t> decode_sizes = {};  // sizes with their own providers (Session::Options)
  bool shares_states = false;              // in a block that can be given to other workers
  FK_FIELDS(arch, config, limits, policy, device, graphs, decode_sizes, shares_states)
};

// A rank's place among all ranks, and among those of its machine, which share cores and devices.
struct RankSeat {
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  FK_FIELDS(rank, size, local_rank, local_size)
};

// The handle of a session's weights: a sealed block of shared memory, or memory of the device.
struct WeightsHandle {
  int fd = -1;
  int64_t bytes = 0;
  bool on_device = false;
  uint64_t remote = 0;  // in place of a descriptor: their number on another machine
};

// The handle of a session's states, which are its caches and other memory between calls. Two
// workers use one physical copy in turn. Code that reads data it has not written in its own turn
// finds the other's data.
struct StatesHandle {
  int fd = -1;
  int64_t bytes = 0;
  uint64_t remote = 0;  // as for weights
};

// One node of a graph: its place in the model, its op and provider, and why other providers
// refused.
struct NodeRow {
  std::string path, op, provider;
  int level = 1;
  std::vector<std::string> refusals;
  FK_FIELDS(path, op, provider, level, refusals)
};
struct PhaseInfo {
  std::string name;
  std::vector<NodeRow> nodes;
  FK_FIELDS(name, nodes)
};
// A worker's own description: shown, never trusted.
struct SessionInfo {
  std::vector<PhaseInfo> phases;
  int64_t weights_bytes = 0, packed_bytes = 0, persistent_bytes = 0, states_bytes = 0,
          arena_bytes = 0, scratch_bytes = 0;
  int64_t pages = 0;
  int32_t device_threads = 0;
  std::string device;
  FK_FIELDS(phases, weights_bytes, packed_bytes, persistent_bytes, states_bytes, arena_bytes,
            scratch_bytes, pages, device_threads, device)
};

// A worker's description of its session.
SessionInfo info_of(Session& session);

// ---- their JSON (core/base/fields.hpp) ----

const std::vector<std::pair<DType, std::string>>& json_names(DType);
const std::vector<std::pair<Trust, std::string>>& json_names(Trust);
Json json_value(const Config& config);
void json_value(const Json& json, Config& config);

template <class Visitor>
void fields(Visitor& v, Parallel& p) {
  v("tp", p.tp);
  v("ep", p.ep);
  v("rank", p.rank);
  v("overlap", p.overlap);
}

template <class Visitor>
void fields(Visitor& v, Limits& l) {
  v("max_batch", l.max_batch);
  v("max_context", l.max_context);
  v("chunk_tokens", l.chunk_tokens);
  v("page_size", l.page_size);
  v("pages", l.pages);
  v("dtype", l.dtype);
  v("cache_dtype", l.cache_dtype);
  v("weight_dtype", l.weight_dtype);
  v("parallel", l.parallel);
}

template <class Visitor>
void fields(Visitor& v, SizeBound& b) {
  v("of", b.of);
  v("at_least", b.at_least);
  v("at_most", b.at_most);
}

template <class Visitor>
void fields(Visitor& v, RankedProviders& r) {
  v("where", r.where);
  v("providers", r.providers);
}

// Without the type of device, which the session sets.
template <class Visitor>
void fields(Visitor& v, ProviderPolicy& p) {
  v("pins", p.pins);
  v("candidates", p.candidates);
  v("baselines", p.baselines);
  v("ranking", p.ranking);
  v("oracles", p.oracles);
  v("whole", p.whole);
}

}  // namespace fk
