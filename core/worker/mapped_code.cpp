// SPDX-License-Identifier: Apache-2.0
#include "core/worker/mapped_code.hpp"

#include <fstream>
#include <sstream>

#include "core/plugin/libraries.hpp"

namespace fk {

std::set<std::string> mapped_code(pid_t pid) {
  std::set<std::string> out;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, access, offset, device, inode, path;
    words >> range >> access >> offset >> device >> inode;
    std::getline(words >> std::ws, path);
    if (access.size() > 2 && access[2] == 'x' && !path.empty() && path[0] == '/') out.insert(path);
  }
  return out;
}

std::string foreign_code(const std::set<std::string>& before, const std::set<std::string>& now,
                         const std::string& own) {
  for (const auto& path : now) {
    const std::string name = path.substr(path.rfind('/') + 1);
    const bool system = path.starts_with("/usr/") || path.starts_with("/lib");
    if (before.count(path) || name.starts_with(own) || (system && may_link(name))) continue;
    return path;
  }
  return "";
}

}  // namespace fk
