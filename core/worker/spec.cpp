// SPDX-License-Identifier: Apache-2.0
#include "core/worker/spec.hpp"

#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

// Cleans a worker's text: bounded, without control characters.
std::string clean(const std::string& text) { return printable(text.substr(0, 2048)); }

Json limits_json(const Limits& l) {
  return {{"max_batch", l.max_batch},
          {"max_context", l.max_context},
          {"chunk_tokens", l.chunk_tokens},
          {"page_size", l.page_size},
          {"pages", l.pages},
          {"dtype", name(l.dtype)},
          {"cache_dtype", name(l.cache_dtype)},
          {"weight_dtype", name(l.weights())},
          {"parallel", {l.parallel.tp, l.parallel.ep, l.parallel.rank, l.parallel.overlap}}};
}

Limits limits_from(const Json& j) {
  Limits l;
  l.max_batch = j.at("max_batch");
  l.max_context = j.at("max_context");
  l.chunk_tokens = j.at("chunk_tokens");
  l.page_size = j.at("page_size");
  l.pages = j.at("pages");
  l.dtype = dtype_from_name(j.at("dtype").get<std::string>());
  l.cache_dtype = dtype_from_name(j.at("cache_dtype").get<std::string>());
  l.weight_dtype = dtype_from_name(j.at("weight_dtype").get<std::string>());
  const auto& parallel = j.at("parallel");
  l.parallel = {parallel.at(0), parallel.at(1), parallel.at(2), parallel.at(3)};
  return l;
}

NodeRow node_from(const Json& j) {
  NodeRow row;
  row.path = clean(j.at("path").get<std::string>());
  row.op = clean(j.at("op").get<std::string>());
  row.provider = clean(j.at("provider").get<std::string>());
  row.level = j.at("level");
  for (const auto& text : j.at("refusals")) row.refusals.push_back(clean(text.get<std::string>()));
  return row;
}

SessionInfo parse_info(const Json& json) {
  SessionInfo info;
  for (const auto& phase : json.at("phases")) {
    PhaseInfo p{clean(phase.at("name").get<std::string>()), {}};
    for (const auto& node : phase.at("nodes")) p.nodes.push_back(node_from(node));
    info.phases.push_back(std::move(p));
  }
  const auto& bytes = json.at("bytes");
  info.weights_bytes = bytes.at("weights");
  info.packed_bytes = bytes.at("packed");
  info.persistent_bytes = bytes.at("persistent");
  info.states_bytes = bytes.at("states");
  info.arena_bytes = bytes.at("arena");
  info.scratch_bytes = bytes.at("scratch");
  info.pages = json.at("pages");
  info.device_threads = json.at("device_threads");
  info.device = clean(json.at("device").get<std::string>());
  return info;
}

}  // namespace

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

Json to_json(const SessionSpec& spec) {
  const ProviderPolicy& p = spec.policy;
  return {{"arch", spec.arch},
          {"config", spec.config.json()},
          {"where", spec.config.where()},
          {"limits", limits_json(spec.limits)},
          {"policy",
           {{"pins", p.pins},
            {"candidate", p.candidate},
            {"baselines", p.baselines},
            {"ranking", p.ranking},
            {"oracles", p.oracles},
            {"whole", p.whole}}},
          {"device", spec.device},
          {"graphs", spec.graphs},
          {"decode_sizes", spec.decode_sizes},
          {"shares_states", spec.shares_states}};
}

SessionSpec session_spec_from(const Json& json) {
  SessionSpec spec{json.at("arch").get<std::string>(),
                   Config(json.at("config"), json.at("where").get<std::string>()),
                   limits_from(json.at("limits")),
                   {},
                   json.at("device").get<std::string>()};
  spec.graphs = json.at("graphs");
  spec.decode_sizes = json.at("decode_sizes").get<std::vector<int64_t>>();
  spec.shares_states = json.at("shares_states");
  const auto& policy = json.at("policy");
  spec.policy.pins = policy.at("pins").get<std::map<std::string, std::string>>();
  spec.policy.candidate = policy.at("candidate").get<std::string>();
  spec.policy.baselines = policy.at("baselines").get<std::vector<std::string>>();
  spec.policy.ranking = policy.at("ranking").get<Ranking>();
  spec.policy.oracles = policy.at("oracles").get<std::vector<std::string>>();
  spec.policy.whole = policy.at("whole");
  return spec;
}

Json to_json(const RankSeat& seat) {
  return {seat.rank, seat.size, seat.local_rank, seat.local_size};
}

RankSeat rank_seat_from(const Json& json) {
  return {json.at(0).get<int>(), json.at(1).get<int>(), json.at(2).get<int>(),
          json.at(3).get<int>()};
}

Json to_json(const SessionInfo& info) {
  Json phases = Json::array();
  for (const auto& phase : info.phases) {
    Json nodes = Json::array();
    for (const auto& n : phase.nodes)
      nodes.push_back({{"path", n.path},
                       {"op", n.op},
                       {"provider", n.provider},
                       {"level", n.level},
                       {"refusals", n.refusals}});
    phases.push_back({{"name", phase.name}, {"nodes", std::move(nodes)}});
  }
  return {{"phases", std::move(phases)},
          {"bytes",
           {{"weights", info.weights_bytes},
            {"packed", info.packed_bytes},
            {"persistent", info.persistent_bytes},
            {"states", info.states_bytes},
            {"arena", info.arena_bytes},
            {"scratch", info.scratch_bytes}}},
          {"pages", info.pages},
          {"device_threads", info.device_threads},
          {"device", info.device}};
}

SessionInfo session_info_from(const Json& json) {
  try {
    return parse_info(json);
  } catch (const Json::exception&) {
    fail("worker", "a malformed description of a session");
  }
}

}  // namespace fk
