// SPDX-License-Identifier: Apache-2.0
//
// Looking for the project's folders.

#include "core/base/paths.hpp"

#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk::paths {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_home(const fs::path& path) {
  return is_folder(path / "registry" / "ops") && is_folder(path / "scenarios");
}

// The nearest folder upwards that CMake configured; empty if the program is outside of a build
// tree.
std::optional<fs::path> build_dir() {
  for (fs::path dir = executable_dir();; dir = dir.parent_path()) {
    std::error_code ignored;
    if (fs::exists(dir / "CMakeCache.txt", ignored)) return dir;
    if (dir == dir.parent_path()) return std::nullopt;
  }
}

fs::path installed_home() { return executable_dir().parent_path() / "share" / "fk-host"; }

// Users write no files into an installed prefix.
bool is_installed() {
  std::error_code none;
  return fs::equivalent(home(), installed_home(), none);
}

std::vector<fs::path> entries(const char* name) {
  std::vector<fs::path> result;
  for (const std::string& part : split(environment(name), ':')) {
    if (!part.empty()) result.emplace_back(part);
  }
  return result;
}

}  // namespace

fs::path executable_dir() {
  std::error_code code;
  const fs::path self = fs::read_symlink("/proc/self/exe", code);
  if (code) fail("/proc/self/exe", "cannot be read: " + code.message());
  return self.parent_path();
}

fs::path home() {
  const std::string chosen = environment("FK_HOME");
  if (!chosen.empty()) {
    if (!is_home(chosen)) {
      fail("FK_HOME", "`" + chosen + "` has no folders registry/ops and scenarios");
    }
    return fs::absolute(chosen).lexically_normal();
  }
  const fs::path start = executable_dir();
  for (fs::path dir = start;; dir = dir.parent_path()) {
    if (is_home(dir)) return dir;
    if (dir == dir.parent_path()) break;
  }
  const fs::path installed = installed_home();
  if (is_home(installed)) return installed;
  fail("home",
       "no folder with registry/ops and scenarios was found from " + start.string() +
           " upwards, nor " + installed.string(),
       "set FK_HOME to the project's folder");
}

std::vector<fs::path> registry_dirs() {
  std::vector<fs::path> result = {home() / "registry"};
  for (const fs::path& entry : entries("FK_REGISTRY_PATH")) {
    if (!is_folder(entry)) fail("FK_REGISTRY_PATH", "`" + entry.string() + "` is no folder");
    result.push_back(entry);
  }
  return result;
}

fs::path scenarios_dir() { return home() / "scenarios"; }

fs::path new_scenarios_dir() { return is_installed() ? fs::current_path() : scenarios_dir(); }

std::vector<fs::path> own_plugin_dirs() {
  std::vector<fs::path> result;
  const fs::path start = executable_dir();
  std::vector<fs::path> own = {start / "plugins",
                               start.parent_path() / "lib" / "fk-host" / "plugins"};
  // Test programs lie deeper in the build tree than the host.
  if (const std::optional<fs::path> build = build_dir(); build && *build != start) {
    own.insert(own.begin() + 1, *build / "plugins");
  }
  for (const fs::path& dir : own) {
    if (is_folder(dir)) result.push_back(dir);
  }
  return result;
}

std::vector<fs::path> plugin_dirs() {
  std::vector<fs::path> result = own_plugin_dirs();
  for (const fs::path& entry : entries("FK_PLUGIN_PATH")) {
    std::error_code ignored;
    if (!fs::exists(entry, ignored)) {
      fail("FK_PLUGIN_PATH", "`" + entry.string() + "` does not exist");
    }
    result.push_back(entry);
  }
  return result;
}

fs::path candidates_dir() {
  const std::string chosen = environment("FK_CANDIDATES");
  if (!chosen.empty()) return chosen;
  return (is_installed() ? fs::current_path() : home()) / "candidates";
}

fs::path cache_dir() {
  if (const std::string chosen = environment("FK_CACHE"); !chosen.empty()) return chosen;
  if (const std::optional<fs::path> build = build_dir()) return *build / "cache";
  if (const std::string xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) {
    return fs::path(xdg) / "fk-host";
  }
  if (const std::string user = environment("HOME"); !user.empty()) {
    return fs::path(user) / ".cache" / "fk-host";
  }
  fail("cache", "neither FK_CACHE, XDG_CACHE_HOME nor HOME is set");
}

fs::path data_dir() {
  if (const std::string chosen = environment("FK_DATA"); !chosen.empty()) return chosen;
  if (const std::string xdg = environment("XDG_DATA_HOME"); !xdg.empty()) {
    return fs::path(xdg) / "fk-host";
  }
  if (const std::string user = environment("HOME"); !user.empty()) {
    return fs::path(user) / ".local" / "share" / "fk-host";
  }
  fail("data", "neither FK_DATA, XDG_DATA_HOME nor HOME is set");
}

}  // namespace fk::paths
