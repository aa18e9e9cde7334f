// SPDX-License-Identifier: Apache-2.0
// What registry/models/<domain>/<arch>.yaml says about a model: where it comes from, which public
// configurations it has, how it is made tiny, how its correctness is judged.
// registry/models/README.md has the grammar.
#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/base/yaml.hpp"

namespace fk {

enum class Signal { logits, embeddings };  // what is compared with the reference

struct ModelInfo {
  std::string arch, domain, summary;
  std::vector<std::string> architectures;  // class names in config.json
  std::vector<std::string> configs;        // files in registry/configs, without .json; may be empty
  std::string source, paper;               // production class; where the model is described
  Signal correctness = Signal::logits;
  std::vector<std::string> parts;    // the L2 and L3 ops that it is made of
  std::shared_ptr<const Json> tiny;  // overrides of a configuration for the tiny profile
  std::string where;                 // file

  // Error names file, line and the nearest known key.
  static ModelInfo load(const std::filesystem::path& file);
};

// All descriptions below the registry folders, by arch. Error for an arch that is described twice.
std::vector<ModelInfo> load_model_infos();
// Error with the nearest name.
ModelInfo find_model_info(const std::string& arch);

// The file of a public configuration by name: <registry>/configs/<name>.json. Error at `where` with
// the nearest name.
std::filesystem::path find_config(const std::string& name, const std::string& where);

// Maps, lists, numbers, booleans, null and text of a YAML document as JSON.
Json to_json(const Yaml& yaml);

}  // namespace fk
