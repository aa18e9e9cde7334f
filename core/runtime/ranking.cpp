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
      const auto take = [&](const std::string& key, const Yaml& providers) {
        for (const auto& provider : providers.items()) ranking[key].push_back(provider.text());
      };
      for (const auto& [op, value] : listed->entries()) {
        if (value.is_list())
          take(op, value);
        else
          for (const auto& [phase, providers] : value.entries()) take(op + "." + phase, providers);
      }
    }
  }
  return ranking;
}

const std::vector<std::string>* ranked(const Ranking& ranking, const std::string& op,
                                       const std::string& phase) {
  for (const std::string& key : {op + "." + phase, op})
    if (const auto it = ranking.find(key); it != ranking.end()) return &it->second;
  return nullptr;
}

}  // namespace fk
