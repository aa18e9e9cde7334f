// SPDX-License-Identifier: Apache-2.0
// Reads workload files strictly, and makes requests from a seed.
#include "core/engines/workload.hpp"

#include <algorithm>
#include <cstdint>
#include <map>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/base/yaml.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

std::map<std::string, WorkloadKind>& kind_table() {
  static auto* kinds = new std::map<std::string, WorkloadKind>;
  return *kinds;
}

const WorkloadKind& read_kind(const Yaml& yaml) {
  const auto it = kind_table().find(yaml.text());
  if (it != kind_table().end()) return it->second;
  std::vector<std::string> known;
  for (const auto& [name, kind] : kind_table()) known.push_back(name);
  yaml.fail("`" + yaml.text() + "` is not a kind of workload", did_you_mean(yaml.text(), known));
}

Yaml find_workload(const Yaml& yaml, const std::string& name) {
  yaml.only({"summary", "workloads"});
  const Yaml all = yaml.at("workloads");
  if (!all.has(name))
    all.fail("there is no workload `" + name + "`", did_you_mean(name, all.keys()));
  return all.at(name);
}

// Keys of a workload, and (`tiny`) of its tiny part.
std::vector<std::string> keys_of(const WorkloadKind& arrival, const EngineKind& engine, bool tiny) {
  std::vector<std::string> keys = arrival.numbers;
  keys.insert(keys.end(), engine.numbers.begin(), engine.numbers.end());
  if (tiny) return keys;
  keys.insert(keys.end(), engine.keys.begin(), engine.keys.end());
  keys.insert(keys.end(), {"summary", "kind", "tiny"});
  return keys;
}

void check_keys(const Yaml& yaml, const WorkloadKind& arrival, const EngineKind& engine) {
  yaml.only(keys_of(arrival, engine, false));
  if (const auto tiny = yaml.find("tiny")) tiny->only(keys_of(arrival, engine, true));
}

// The engine that knows the workload's keys, and the fewest others.
std::string engine_of(const Yaml& yaml, const WorkloadKind& arrival) {
  const auto tiny = yaml.find("tiny");
  std::string best = "generate";  // names the unknown key
  size_t fewest = SIZE_MAX;
  for (const auto& name : engine_names()) {
    const auto knows = [&](const Yaml& keys, bool of_tiny) {
      const auto known = keys_of(arrival, engine_kind(name), of_tiny);
      return std::ranges::all_of(keys.keys(),
                                 [&](const auto& key) { return contains(known, key); });
    };
    const size_t count = keys_of(arrival, engine_kind(name), false).size();
    if (count < fewest && knows(yaml, false) && (!tiny || knows(*tiny, true)))
      best = name, fewest = count;
  }
  return best;
}

}  // namespace

WorkloadKindRegistration::WorkloadKindRegistration(const char* name, WorkloadKind kind) {
  kind_table()[name] = std::move(kind);
}

Workload load_workload(const std::filesystem::path& file, const std::string& name,
                       const std::string& engine, bool tiny, int64_t context_max) {
  const Yaml yaml = find_workload(Yaml::load(file), name);
  const Yaml kind_key = yaml.at("kind");
  const WorkloadKind& arrival = read_kind(kind_key);
  const std::string driver = engine.empty() ? engine_of(yaml, arrival) : engine;
  const EngineKind& kind = engine_kind(driver);
  check_keys(yaml, arrival, kind);
  const WorkloadKeys keys(yaml, tiny);
  Workload w;
  w.name = name;
  w.summary = yaml.text_or("summary", "");
  w.kind = kind_key.text();
  const int64_t requests = arrival.read(keys, w);
  w.load = kind.read(keys, {requests, context_max, w.together});
  if (w.at_their_times && !w.load->is_recorded())
    kind_key.fail("these requests have no times of arrival", "`recorded` names a file with times");
  // The first round has the recorded prompts, so a candidate may know its answers.
  if (w.load->is_recorded()) w.warmup = std::max<int64_t>(1, w.warmup);
  return w;
}

std::vector<std::string> workload_names(const std::filesystem::path& file) {
  const Yaml yaml = Yaml::load(file);
  yaml.only({"summary", "workloads"});
  return yaml.at("workloads").keys();
}

namespace {

void change_tokens(Request& request, const RequestForm& form, uint64_t seed) {
  constexpr size_t kStep = 16;
  const Request other = form.random(static_cast<int64_t>(request.tokens.size()), seed);
  for (size_t i = 0; i < request.tokens.size(); i += kStep) request.tokens[i] = other.tokens[i];
}

}  // namespace

std::vector<Request> make_requests(const Workload& workload, const RequestForm& form, uint64_t seed,
                                   int64_t round) {
  const uint64_t stream = seed_of(workload.name, seed);
  std::vector<Request> requests;
  for (int64_t i = 0; i < workload.load->requests(); ++i) {
    const std::string name = "round " + std::to_string(round) + " request " + std::to_string(i + 1);
    requests.push_back(workload.load->request(form, i, seed_of(name, stream)));
    if (round > 0 && workload.load->is_recorded())
      change_tokens(requests.back(), form, seed_of(name, stream));
    requests.back().id = requests.size();
  }
  return requests;
}

}  // namespace fk
