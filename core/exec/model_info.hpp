// SPDX-License-Identifier: Apache-2.0
// Description of a model, from registry/models/<domain>/<arch>.yaml: its source, public
// configurations, values of absent keys, tiny sizes, test of correctness, and scenario.
// registry/models/README.md has the grammar.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/yaml.hpp"

namespace fk {

struct ModelInfo {
  std::string arch, domain, summary;
  std::vector<std::string> architectures;  // class names in config.json
  std::vector<std::string> configs;        // files in registry/configs, without .json; may be empty
  std::string source, paper;               // production class; description of the model
  std::string correctness;           // the metric of comparisons with the reference (metric.hpp)
  std::vector<std::string> parts;    // L2 and L3 ops in the model
  std::shared_ptr<const Json> tiny;  // changes of a configuration for the tiny profile
  std::string where;                 // the file
  std::shared_ptr<const Json> defaults;  // the framework's values of keys which a config.json omits
  // A file may describe a whole model below the key of a form (model_forms()). Then it has further
  // values of `model_type` and keys without effect on answers.
  std::string form;
  std::optional<Config> description;
  std::vector<std::string> model_types, ignore;

  // Error with file, line and nearest known key.
  static ModelInfo load(const std::filesystem::path& file);
};

// All descriptions in the registry folders, by arch. Error for a second description of an arch.
std::vector<ModelInfo> load_model_infos();
// Error with the nearest name.
ModelInfo find_model_info(const std::string& arch);
// The same. Null if no file has the name.
std::optional<ModelInfo> maybe_model_info(const std::string& arch);
// Keeps the text of every description, for a process which may read no file later.
void read_models_ahead();
// Models whose files have the text, by their names. Reads the files, and parses none of them.
std::vector<std::string> models_that_mention(const std::string& text);

// Keys which configurations of a model may have, and which change no answer.
std::vector<std::string> keys_without_effect(const std::string& arch);

// The file of a public configuration by name: <registry>/configs/<name>.json. Error at `where` with
// the nearest name.
std::filesystem::path find_config(const std::string& name, const std::string& where);

// Maps, lists, numbers, booleans, null and text of a YAML document as JSON.
Json to_json(const Yaml& yaml);

}  // namespace fk
