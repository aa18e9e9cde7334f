// SPDX-License-Identifier: Apache-2.0
// A scenario: which model, in which sizes and types, under which limits, with which workloads and
// providers. scenarios/README.md has the grammar of the files.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/engines/workload.hpp"
#include "core/exec/model.hpp"
#include "core/exec/model_info.hpp"

namespace fk {

struct Scenario {
  explicit Scenario(Config c) : config(std::move(c)) {}

  std::string name, summary, profile;  // profile: "tiny" or "full"
  std::filesystem::path file;
  std::string arch;
  ModelInfo info;
  Config config;                                 // with the changes of the profile
  uint64_t seed = 0;                             // of weights and requests
  std::filesystem::path weights;                 // a checkpoint; empty: random from the seed
  std::vector<std::string> weights_notes;        // about the checkpoint, for the user
  Limits limits;                                 // dtype and cache_dtype are here
  std::map<std::string, std::string> providers;  // pins: op -> provider
  std::vector<Workload> workloads;
  int64_t vocab_size = 0, max_positions = 0;  // of the model
  std::vector<Model::RequestTensor> tensors;  // that its requests bring

  std::unique_ptr<Model> make() const { return make_model(arch, config); }
};

// The profiles of every scenario.
std::vector<std::string> profile_names();

// Reads one scenario. Errors name file, line, what is wrong and the nearest known name; an unknown
// key anywhere is refused.
Scenario load_scenario(const std::filesystem::path& file, const std::string& profile);

// The scenarios that a file stands for: itself, or for a list (`scenarios:`) the files of its
// entries, in order. Error when one of them does not exist.
std::vector<std::filesystem::path> scenario_files(const std::filesystem::path& file);

// The file of an argument: a path, or the name of a file in scenarios/. Error with the nearest
// name.
std::filesystem::path find_scenario(const std::string& argument);
// Names of all files in scenarios/, sorted.
std::vector<std::string> scenario_names();

}  // namespace fk
