// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/ranking.hpp"

#include <filesystem>

#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/base/yaml.hpp"

namespace fk {

namespace fs = std::filesystem;

Ranking ranking_of(const std::string& device_name) {
  Ranking ranking;
  for (const auto& dir : paths::registry_dirs()) {
    if (!fs::is_directory(dir / "devices")) continue;
    for (const auto& entry : fs::directory_iterator(dir / "devices")) {
      if (entry.path().extension() != ".yaml") continue;
      const Yaml yaml = Yaml::load(entry.path());
      const auto listed = yaml.find("ranking");
      if (!listed || !ends_with(device_name, yaml.at("name").text())) continue;
      for (const auto& [op, providers] : listed->entries())
        for (const auto& provider : providers.items()) ranking[op].push_back(provider.text());
    }
  }
  return ranking;
}

}  // namespace fk
