// SPDX-License-Identifier: Apache-2.0
// Describes a session, and gives types of other rooms their JSON.
#include "core/worker/spec.hpp"

#include <nlohmann/json.hpp>

namespace fk {

Config no_config() { return {Json::object(), ""}; }

const std::vector<std::pair<DType, std::string>>& json_names(DType) {
  static const auto names = [] {
    std::vector<std::pair<DType, std::string>> all;
    for (const DType dtype : all_dtypes()) all.emplace_back(dtype, name(dtype));
    return all;
  }();
  return names;
}

const std::vector<std::pair<Trust, std::string>>& json_names(Trust) {
  static const std::vector<std::pair<Trust, std::string>> names = {{Trust::baseline, "baseline"},
                                                                   {Trust::candidate, "candidate"}};
  return names;
}

Json json_value(const Config& config) {
  return {{"where", config.where()}, {"json", config.json()}};
}

void json_value(const Json& json, Config& config) {
  config = Config(json.at("json"), json.at("where").get<std::string>());
}

SessionInfo info_of(Session& session) {
  SessionInfo info;
  for (const auto& name : session.phase_names()) {
    PhaseInfo phase{name, {}};
    for (const auto& n : session.phase(name).nodes())
      phase.nodes.push_back({n.path, n.op, n.provider, n.level, n.refusals});
    info.phases.push_back(std::move(phase));
  }
  const Session::Bytes bytes = session.bytes();
  info.weights_bytes = bytes.weights;
  info.packed_bytes = bytes.packed;
  info.persistent_bytes = bytes.persistent;
  info.states_bytes = bytes.states;
  info.arena_bytes = bytes.arena;
  info.scratch_bytes = bytes.scratch;
  info.pages = session.pages();
  info.device = session.device().name();
  info.device_threads = session.device().cpu_threads();
  return info;
}

}  // namespace fk
