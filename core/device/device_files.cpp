// SPDX-License-Identifier: Apache-2.0
// Reads the files of all registry folders, without their meaning (device_files.hpp).
#include "core/device/device_files.hpp"

#include <algorithm>
#include <filesystem>

#include "core/base/paths.hpp"
#include "core/device/backends.hpp"

namespace fk {

std::vector<Yaml> device_files() {
  namespace fs = std::filesystem;
  std::vector<Yaml> files;
  for (const auto& dir : paths::registry_dirs()) {
    if (!fs::is_directory(dir / "devices")) continue;
    for (const auto& entry : fs::directory_iterator(dir / "devices")) {
      if (entry.path().extension() != ".yaml") continue;
      files.push_back(Yaml::load(entry.path()));
    }
  }
  const size_t registered = files.size();
  for (const Backend& backend : backends()) {
    if (!backend.usable() || !backend.table.peaks) continue;
    files.push_back(Yaml::parse(backend.table.peaks, backend.path.string()));
    const std::string name = files.back().at("name").text();
    const auto same = [&](const Yaml& file) { return file.at("name").text() == name; };
    if (std::any_of(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(registered), same))
      files.pop_back();
  }
  for (const Yaml& file : files)
    file.only({"device", "name", "memory_bandwidth", "memory", "link_bandwidth", "l2_bytes",
               "flops", "ranking"});
  return files;
}

bool is_of_kind(const std::string& device_name, const std::string& kind) {
  if (kind.empty()) return false;
  const auto ends_word = [&](size_t at) {
    return at == device_name.size() || device_name[at] == ' ';
  };
  for (size_t at = device_name.find(kind); at != std::string::npos;
       at = device_name.find(kind, at + 1))
    if ((at == 0 || device_name[at - 1] == ' ') && ends_word(at + kind.size())) return true;
  return false;
}

}  // namespace fk
