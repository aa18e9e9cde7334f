// SPDX-License-Identifier: Apache-2.0
// Lists the executable files in a process by /proc/PID/maps. foreign_code() finds a file which
// neither the host nor a permitted library has brought.
#include "core/worker/mapped_code.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/plugin/libraries.hpp"

namespace fk {

MappedCode mapped_code(pid_t pid) {
  MappedCode out;
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    std::string range, access, offset, device, inode, path;
    words >> range >> access >> offset >> device >> inode;
    std::getline(words >> std::ws, path);
    if (access.size() > 2 && access[2] == 'x' && !path.empty() && path[0] == '/')
      out.emplace(path, device + " " + inode);
  }
  return out;
}

namespace {

// Paths end with a slash in folder_of(), and have none in name_of().
std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }
std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// "libcudnn" for libcudnn.so.9 and for libcudnn_ops.so.9.
std::string family_of(const std::string& path) {
  return folder_of(path) + name_of(path).substr(0, name_of(path).find_first_of("_.-"));
}

// True for a file in the same folder as a known driver file. A driver may be installed anywhere,
// but only its vendor puts files into its folder. Entries without a folder ("/memfd:") prove
// nothing.
bool beside_known(const std::string& path, const MappedCode& before) {
  if (path.ends_with(" (deleted)")) return false;
  return std::any_of(before.begin(), before.end(), [&](const auto& known) {
    return family_of(known.first) == family_of(path) ||
           (of_driver(name_of(path)) && of_driver(name_of(known.first)) &&
            folder_of(known.first) == folder_of(path));
  });
}

}  // namespace

std::string foreign_code(const MappedCode& before, const MappedCode& now, const std::string& own,
                         bool driver, const std::string& compiled) {
  for (const auto& [path, file] : now) {
    const auto same = [&](const auto& known) { return !file.empty() && known.second == file; };
    const std::string name = name_of(path);
    const bool system = path.starts_with("/usr/") || path.starts_with("/lib");
    if (before.count(path) || std::any_of(before.begin(), before.end(), same)) continue;
    if (!compiled.empty() && path.starts_with(compiled)) continue;
    if (name.starts_with(own) || (system && may_link(name))) continue;
    if (driver && ((system && of_driver(name)) || beside_known(path, before))) continue;
    return path;
  }
  return "";
}

}  // namespace fk
