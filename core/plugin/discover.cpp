// SPDX-License-Identifier: Apache-2.0
// Searches folders for plugins. Files appear and vanish meanwhile (a linker writes, an agent
// deletes): vanished files are skipped, and broken ones are reported, never fatal.
#include <algorithm>
#include <map>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/plugin/discover.hpp"
#include "core/plugin/notes.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

constexpr int kDepthMax = 2;  // candidates/<name>/build/<name>.so

using Files = std::map<fs::path, std::pair<fs::path, Trust>>;  // key: real path

void add(const fs::path& file, Trust trust, Files& files) {
  std::error_code gone;
  const fs::path real = fs::canonical(file, gone);
  if (gone || !fs::is_regular_file(real, gone)) return;
  const auto [it, fresh] = files.emplace(real, std::pair{file, trust});
  // The stricter rules apply to a file that is found as both.
  if (!fresh && trust == Trust::candidate) it->second = {file, trust};
}

void scan(const fs::path& dir, Trust trust, Files& files) {
  std::error_code error;
  if (fs::is_regular_file(dir, error)) {
    add(dir, trust, files);
    return;
  }
  fs::recursive_directory_iterator it(dir, fs::directory_options::skip_permission_denied, error);
  const fs::recursive_directory_iterator end;
  while (!error && it != end) {
    const fs::path& path = it->path();
    const std::string name = path.filename().string();
    if (it.depth() >= kDepthMax || name.starts_with(".")) it.disable_recursion_pending();
    if (path.extension() == ".so" && !name.starts_with(".")) add(path, trust, files);
    it.increment(error);
  }
}

}  // namespace

std::vector<fs::path> baseline_files() {
  Files files;
  for (const auto& dir : paths::plugin_dirs()) scan(dir, Trust::baseline, files);
  std::vector<fs::path> out;
  for (const auto& [real, found] : files) out.push_back(found.first);
  return out;
}

std::optional<fs::path> only_plugin_file(const std::string& stem) {
  Files files;
  for (const auto& dir : paths::plugin_dirs()) scan(dir, Trust::baseline, files);
  scan(paths::candidates_dir(), Trust::candidate, files);
  std::erase_if(files, [&](const auto& file) { return file.second.first.stem() != stem; });
  if (files.size() != 1) return std::nullopt;
  return files.begin()->second.first;
}

std::vector<FoundPlugin> discover(bool candidates) {
  Files files;
  for (const auto& dir : paths::plugin_dirs()) scan(dir, Trust::baseline, files);
  if (candidates) scan(paths::candidates_dir(), Trust::candidate, files);
  std::vector<FoundPlugin> out;
  for (const auto& [real, found] : files) {
    FoundPlugin plugin;
    plugin.path = found.first;
    plugin.trust = found.second;
    try {
      plugin.note = read_notes(found.first);
    } catch (const Error& e) {
      std::error_code gone;
      if (!fs::exists(found.first, gone)) continue;
      plugin.error = e.what();
    }
    out.push_back(std::move(plugin));
  }
  const auto name = [](const FoundPlugin& p) {
    return p.error.empty() ? p.note.name : p.path.stem().string();
  };
  std::sort(out.begin(), out.end(), [&](const FoundPlugin& a, const FoundPlugin& b) {
    return std::pair(name(a), a.path) < std::pair(name(b), b.path);
  });
  return out;
}

}  // namespace fk
