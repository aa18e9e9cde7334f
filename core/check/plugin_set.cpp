// SPDX-License-Identifier: Apache-2.0
#include "core/check/plugin_set.hpp"

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/exec/select.hpp"

namespace fk {

namespace {

// Why a candidate is not loaded; empty: it may be.
std::string refusal(const FoundPlugin& plugin, const Catalog& catalog) {
  if (!plugin.error.empty()) return plugin.error;
  std::string mismatches;
  size_t usable = 0;
  for (const auto& op : plugin.note.ops) {
    const std::string why = note_mismatch(op, catalog);
    if (why.empty())
      ++usable;
    else
      mismatches += (mismatches.empty() ? "" : "; ") + why;
  }
  if (usable == 0) return mismatches.empty() ? "it has no op" : mismatches;
  const std::string broken = broken_rule(plugin.path, plugin.trust);
  return broken.empty() ? "" : "lint: " + broken;
}

bool is_file(const std::string& word) {
  return word.find('/') != word.npos || ends_with(word, ".so");
}

}  // namespace

bool is_oracle(const std::string& plugin) {
  const auto oracles = ProviderPolicy{}.oracles;
  return starts_with(plugin, kVendorReference) ||
         std::find(oracles.begin(), oracles.end(), plugin) != oracles.end();
}

std::string plugin_name(const FoundPlugin& plugin) {
  return plugin.note.name.empty() ? plugin.path.stem().string() : plugin.note.name;
}

PluginSet PluginSet::find(const Catalog& catalog) {
  PluginSet plugin_set;
  for (auto& found : discover()) {
    if (found.trust == Trust::baseline) {
      (found.error.empty() ? plugin_set.baselines : plugin_set.broken).push_back(std::move(found));
      continue;
    }
    found.error = refusal(found, catalog);
    if (const auto* other = plugin_set.candidate(plugin_name(found)); other && found.error.empty())
      found.error = "another candidate has the same name: " + other->path.string();
    plugin_set.candidates.push_back(std::move(found));
  }
  for (auto& candidate : plugin_set.candidates)
    if (candidate.error.empty()) candidate.error = plugin_set.name_taken(plugin_name(candidate));
  return plugin_set;
}

PluginSet PluginSet::of_baselines(const std::string& device) {
  PluginSet plugin_set;
  for (auto& found : discover(false)) {
    if (device == "cpu" && !found.note.sm.empty()) continue;
    (found.error.empty() ? plugin_set.baselines : plugin_set.broken).push_back(std::move(found));
  }
  return plugin_set;
}

std::vector<std::string> PluginSet::ranked() const {
  std::vector<std::tuple<bool, bool, std::string>> order;
  for (const auto& plugin : baselines)
    order.emplace_back(is_oracle(plugin.note.name), !plugin.own, plugin.note.name);
  std::sort(order.begin(), order.end());
  std::vector<std::string> names;
  for (auto& place : order) names.push_back(std::move(std::get<std::string>(place)));
  return names;
}

std::vector<PluginFile> PluginSet::baseline_files() const {
  std::vector<PluginFile> files;
  for (const auto& plugin : baselines) files.push_back({plugin.path, Trust::baseline});
  if (rival && rival->trust == Trust::candidate) files.push_back({rival->path, rival->trust});
  return files;
}

std::vector<PluginFile> PluginSet::oracle_files() const {
  std::vector<PluginFile> files;
  for (const auto& plugin : baselines)
    if (is_oracle(plugin.note.name)) files.push_back({plugin.path, Trust::baseline});
  return files;
}

const FoundPlugin* PluginSet::candidate(const std::string& name) const {
  for (const auto& plugin : candidates)
    if (plugin_name(plugin) == name) return &plugin;
  return nullptr;
}

std::string PluginSet::name_taken(const std::string& name) const {
  if (name == "baseline") return "the name `baseline` is reserved for reports";
  if (starts_with(name, kVendorReference))
    return "names with `" + std::string(kVendorReference) +
           "` are reserved for references, which are plugins of FK_PLUGIN_PATH";
  for (const auto& baseline : baselines)
    if (plugin_name(baseline) == name)
      return "a baseline has the same name: " + baseline.path.string();
  return "";
}

void need_built(const std::string& name) {
  const auto folder = paths::candidates_dir() / name;
  std::error_code none;
  if (!name.empty() && name.find('/') == std::string::npos &&
      std::filesystem::is_directory(folder, none))
    fail(folder.string(), "it has not been built", "fk-host build " + name);
}

FoundPlugin PluginSet::plugin(const std::string& word) const {
  std::vector<std::string> known;
  for (const auto* list : {&candidates, &baselines, &broken}) {
    for (const auto& found : *list) {
      if (plugin_name(found) == word) return found;
      known.push_back(plugin_name(found));
    }
  }
  // A candidate by its folder, if its plugin has another name.
  for (const auto& found : candidates)
    if (found.path.stem() == word) return found;
  need_built(word);
  if (!is_file(word))
    fail("plugin", "there is no plugin `" + word + "`", did_you_mean(word, known));
  FoundPlugin found;
  found.path = word;
  found.trust = Trust::candidate;
  std::error_code none;
  if (std::filesystem::is_directory(word, none)) {
    const auto folder = std::filesystem::weakly_canonical(word, none);
    found.path = folder / (folder.filename().string() + ".so");
    if (!std::filesystem::exists(found.path, none))
      fail(word, "it has not been built", "fk-host build " + word);
  }
  if (!std::filesystem::exists(found.path, none)) fail(word, "there is no such file");
  for (const auto& baseline : baselines)
    if (std::filesystem::equivalent(baseline.path, found.path, none)) return baseline;
  found.note = read_notes(found.path);
  if (const std::string taken = name_taken(plugin_name(found)); !taken.empty()) fail(word, taken);
  return found;
}

void PluginSet::take_in(std::vector<std::string>& words, const Catalog& catalog) {
  std::map<std::string, std::filesystem::path> taken;
  for (auto& word : words) {
    if (!is_file(word)) continue;
    FoundPlugin found = plugin(word);
    const std::string name = plugin_name(found);
    if (found.trust == Trust::baseline) fail(word, "it is the baseline `" + name + "`");
    const auto [before, fresh] = taken.emplace(name, found.path);
    std::error_code none;
    if (!fresh && !std::filesystem::equivalent(before->second, found.path, none))
      fail(word, "another candidate has the same name: " + before->second.string(),
           "give FK_PLUGIN another name");
    found.error = refusal(found, catalog);
    std::erase_if(candidates, [&](const auto& other) { return plugin_name(other) == name; });
    candidates.push_back(std::move(found));
    word = name;
  }
}

UnusablePlugin unusable(const std::filesystem::path& file, const std::string& why) {
  const std::string path = file.string();
  const bool named = starts_with(why, path + ": ");
  return {path, named ? why.substr(path.size() + 2) : why};
}

void need_loaded(const std::vector<std::string>& names, const Unusable& unusable) {
  for (const auto& [path, why] : unusable)
    if (contains(names, read_notes(path).name)) fail_host(path, why);
}

Unusable unusable_of(const std::vector<PluginFile>& files, const std::vector<std::string>& errors) {
  Unusable out;
  size_t left = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const bool candidate = files[i].trust == Trust::candidate;
    left += !candidate && errors.at(i).empty();
    if (errors.at(i).empty()) continue;
    out.push_back(unusable(files[i].path, errors[i]));
    if (candidate) throw Error(out.back().path, out.back().why);
  }
  if (left == 0 && !out.empty()) throw Error(out[0].path, out[0].why);
  return out;
}

}  // namespace fk
