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

struct FoundFile {
  fs::path path;
  Trust trust = Trust::baseline;
  size_t folder = 0;  // its place in paths::plugin_dirs()
};
using Files = std::map<fs::path, FoundFile>;  // key: real path

void add(const FoundFile& file, Files& files) {
  std::error_code gone;
  const fs::path real = fs::canonical(file.path, gone);
  if (gone || !fs::is_regular_file(real, gone)) return;
  const auto [it, fresh] = files.emplace(real, file);
  // The stricter rules apply to a file that is found as both.
  if (!fresh && file.trust == Trust::candidate) it->second = file;
}

void scan(const fs::path& dir, Trust trust, size_t folder, Files& files) {
  std::error_code error;
  if (fs::is_regular_file(dir, error)) {
    add({dir, trust, folder}, files);
    return;
  }
  fs::recursive_directory_iterator it(dir, fs::directory_options::skip_permission_denied, error);
  const fs::recursive_directory_iterator end;
  while (!error && it != end) {
    const fs::path& path = it->path();
    const std::string name = path.filename().string();
    if (it.depth() >= kDepthMax || name.starts_with(".")) it.disable_recursion_pending();
    if (path.extension() == ".so" && !name.starts_with(".")) add({path, trust, folder}, files);
    it.increment(error);
  }
}

Files scan_all(bool candidates) {
  Files files;
  const auto dirs = paths::plugin_dirs();
  for (size_t i = 0; i < dirs.size(); ++i) scan(dirs[i], Trust::baseline, i, files);
  if (candidates) scan(paths::candidates_dir(), Trust::candidate, dirs.size(), files);
  return files;
}

// A request by name must reach one file. `first`: the usable baselines before this one.
void refuse_taken_name(FoundPlugin& plugin, std::map<std::string, FoundPlugin>& first) {
  if (plugin.trust != Trust::baseline || !plugin.error.empty()) return;
  const auto [it, fresh] = first.emplace(plugin.note.name, plugin);
  if (fresh) return;
  const FoundPlugin& other = it->second;
  plugin.error = Error(plugin.path.string(),
                       std::string(other.own ? "the host's own provider" : "another baseline") +
                           " has the name `" + plugin.note.name + "` too: " + other.path.string(),
                       "give FK_PLUGIN another name")
                     .what();
}

}  // namespace

std::vector<fs::path> baseline_files() {
  std::vector<fs::path> out;
  for (const auto& [real, found] : scan_all(false)) out.push_back(found.path);
  return out;
}

std::optional<fs::path> only_plugin_file(const std::string& stem) {
  Files files = scan_all(true);
  std::erase_if(files, [&](const auto& file) { return file.second.path.stem() != stem; });
  if (files.size() != 1) return std::nullopt;
  return files.begin()->second.path;
}

std::vector<FoundPlugin> discover(bool candidates) {
  std::vector<FoundFile> files;
  for (auto& [real, found] : scan_all(candidates)) files.push_back(found);
  std::stable_sort(files.begin(), files.end(), [](const FoundFile& a, const FoundFile& b) {
    return std::pair(a.folder, a.path) < std::pair(b.folder, b.path);
  });
  const size_t own = paths::own_plugin_dirs().size();
  std::vector<FoundPlugin> out;
  std::map<std::string, FoundPlugin> first;
  for (const FoundFile& found : files) {
    FoundPlugin plugin;
    plugin.path = found.path;
    plugin.trust = found.trust;
    plugin.own = found.folder < own;
    try {
      plugin.note = read_notes(found.path);
    } catch (const Error& e) {
      std::error_code gone;
      if (!fs::exists(found.path, gone)) continue;
      plugin.error = e.what();
    }
    refuse_taken_name(plugin, first);
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
