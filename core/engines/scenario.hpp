// SPDX-License-Identifier: Apache-2.0
// A scenario: a model with sizes and dtypes, limits, workloads and providers. It is a file of its
// own, or the key `scenario` of a model's file. Other models have that of their domain, with sizes
// of the library's defaults. scenarios/README.md has the grammar.
#pragma once
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/engines/workload.hpp"
#include "core/exec/metric.hpp"
#include "core/exec/model.hpp"
#include "core/exec/model_info.hpp"

namespace fk {

struct Scenario {
  explicit Scenario(Config c) : config(std::move(c)) {}

  std::string name, summary, profile;  // profile: "tiny" or "full"
  std::filesystem::path file;          // a scenario's or a model's
  std::string arch;
  ModelInfo info;
  Config config;                                 // with the profile's changes
  uint64_t seed = 0;                             // for weights and requests
  std::filesystem::path weights;                 // a checkpoint; empty: random from the seed
  std::vector<std::string> weights_notes;        // about the checkpoint, for the user
  Limits limits;                                 // with dtype and cache_dtype
  std::map<std::string, std::string> providers;  // pins: op -> provider
  std::vector<Workload> workloads;
  std::shared_ptr<const Engine> engine;  // the model's
  const Metric* metric = nullptr;        // of its description

  std::unique_ptr<Model> make() const { return make_model(arch, config); }
};

// Names of the profiles that a scenario may have.
std::vector<std::string> profile_names();

// Reads the scenario of a file of either kind. Error with file, line, problem and nearest known
// name; unknown keys are refused.
Scenario load_scenario(const std::filesystem::path& file, const std::string& profile);

// The profile of a scenario where the user names none: full with a GPU, else tiny. A scenario with
// one profile has no choice.
std::string usual_profile(const std::filesystem::path& file, bool gpu);

// A folder of `serve-model --record` is a scenario, which this file has.
inline constexpr const char* kTrafficScenario = "traffic.yaml";

// The scenario files of a file: itself, or the entries of its list (`scenarios:`), in order. Error
// when one does not exist.
std::vector<std::filesystem::path> scenario_files(const std::filesystem::path& file);

// The file for an argument: a path, or the name of a file of scenarios/, of a model's scenario, of
// a model, or a `model_type`. `scenarios/<name>.yaml` also means the name. Error with the nearest
// name.
std::filesystem::path find_scenario(const std::string& argument);
// Names of all files in scenarios/ and of all models' scenarios, sorted.
std::vector<std::string> scenario_names();
// Workloads and profiles of models of a domain without a scenario of their own; empty: none.
std::filesystem::path domain_scenario(const std::string& domain);

}  // namespace fk
