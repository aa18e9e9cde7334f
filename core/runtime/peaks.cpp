// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/peaks.hpp"

#include <filesystem>

#include "core/base/paths.hpp"
#include "core/base/yaml.hpp"

namespace fk {

std::optional<Peaks> peaks_of(const std::string& device_name) {
  namespace fs = std::filesystem;
  for (const auto& dir : paths::registry_dirs()) {
    if (!fs::is_directory(dir / "devices")) continue;
    for (const auto& entry : fs::directory_iterator(dir / "devices")) {
      if (entry.path().extension() != ".yaml") continue;
      const Yaml yaml = Yaml::load(entry.path());
      if (!yaml.has("memory_bandwidth")) continue;
      if (device_name.find(yaml.at("name").text()) == std::string::npos) continue;
      Peaks peaks;
      peaks.bytes_per_s = yaml.at("memory_bandwidth").number();
      if (yaml.has("l2_bytes")) peaks.cache_bytes = yaml.at("l2_bytes").integer();
      for (const auto& [type, peak] : yaml.at("flops").entries())
        peaks.flops_per_s[dtype_from_name(type)] = peak.number();
      return peaks;
    }
  }
  return std::nullopt;
}

}  // namespace fk
