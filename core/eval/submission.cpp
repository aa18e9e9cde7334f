// SPDX-License-Identifier: Apache-2.0
#include "core/eval/submission.hpp"

#include <algorithm>
#include <map>

#include "core/base/error.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/base/yaml.hpp"
#include "core/plugin/notes.hpp"

namespace fk {

namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 2;  // as far as the search for candidates goes

std::vector<fs::path> plugin_files(const fs::path& folder) {
  std::vector<fs::path> out;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::end(it); ++it) {
    const std::string name = it->path().filename().string();
    if (it.depth() >= kDeepest || name.starts_with(".")) it.disable_recursion_pending();
    if (it->path().extension() == ".so" && !name.starts_with("."))
      out.push_back(fs::relative(it->path(), folder));
  }
  std::sort(out.begin(), out.end());
  return out;
}

// A name is part of file names and tables.
void check_name(const Yaml& yaml) {
  const std::string& name = yaml.text();
  const bool fine = !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  });
  if (!fine || name[0] == '.')
    yaml.fail("`" + excerpt(name) + "` is no name", "letters, digits, _ - and .");
  if (name == "baseline") yaml.fail("the name `baseline` is reserved for reports");
}

SubmittedPlugin read_plugin(const fs::path& file, const Yaml& where) {
  SubmittedPlugin out;
  out.file = file;
  try {
    const PluginNote note = read_notes(file);
    out.name = note.name;
    out.version = note.version;
    for (const auto& op : note.ops) out.ops.push_back(op.op);
  } catch (const Error& error) {
    where.fail("the plugin cannot be read: " + excerpt(error.what(), 300));
  }
  std::sort(out.ops.begin(), out.ops.end());
  out.sha256 = sha256_file(file);
  return out;
}

// A manifest for the plugins of the folder, as a first one; plugins which cannot be read are left
// out.
std::string first_manifest(const fs::path& folder) {
  std::vector<std::string> listed;
  for (const auto& file : plugin_files(folder)) {
    std::vector<std::string> ops;
    try {
      for (const auto& op : read_notes(folder / file).ops) ops.push_back(op.op);
    } catch (const Error&) {
      continue;
    }
    listed.push_back(file.string() + ": [" + join(ops, ", ") + "]");
  }
  return "{submission: " + fs::weakly_canonical(folder).filename().string() +
         ", author: me, kind: human, plugins: {" + join(listed, ", ") + "}}";
}

void check_ops(const Yaml& claimed, const SubmittedPlugin& plugin, const Catalog& catalog) {
  std::vector<std::string> ops;
  for (const auto& item : claimed.items()) {
    const std::string& op = item.text();
    if (!contains(plugin.ops, op))
      item.fail(
          "the plugin " + plugin.name + " has no op `" + excerpt(op) + "`",
          catalog.find(op) ? "it has " + join(plugin.ops, ", ") : did_you_mean(op, plugin.ops));
    if (!catalog.find(op))
      item.fail("this host has no op `" + excerpt(op) + "`", did_you_mean(op, catalog.ops()));
    ops.push_back(op);
  }
  for (const auto& op : plugin.ops)
    if (!contains(ops, op))
      claimed.fail("the plugin " + plugin.name + " also has the op `" + op + "`",
                   "list all of its ops");
}

}  // namespace

bool Submission::has_op(const std::string& op) const {
  return std::ranges::any_of(plugins, [&](const auto& plugin) { return contains(plugin.ops, op); });
}

std::string Submission::sha256() const {
  std::vector<std::string> hashes;
  for (const auto& plugin : plugins) hashes.push_back(plugin.sha256);
  std::sort(hashes.begin(), hashes.end());
  return fk::sha256(join(hashes, " "));
}

Submission load_submission(const fs::path& folder, const Catalog& catalog) {
  if (!fs::is_directory(folder))
    fail(folder.string(), "a submission is a folder of plugins, and this is none");
  const fs::path file = folder / kManifest;
  if (!fs::is_regular_file(file))
    fail(folder.string(), "the submission has no manifest.yaml",
         "write there " + excerpt(first_manifest(folder), 600) +
             "; docs/evaluation.md has all keys");
  const Yaml yaml = Yaml::load(file);
  yaml.only({"submission", "author", "kind", "budget", "commit", "note", "plugins"});
  Submission out;
  out.folder = fs::absolute(folder).lexically_normal();
  check_name(yaml.at("submission"));
  out.name = yaml.at("submission").text();
  out.author = yaml.at("author").text();
  const std::vector<std::string> kinds = {"agent", "human", "vendor", "baseline"};
  out.kind = yaml.at("kind").text();
  if (!contains(kinds, out.kind))
    yaml.at("kind").fail("`" + excerpt(out.kind) + "` is no kind", did_you_mean(out.kind, kinds));
  out.budget = yaml.text_or("budget", "");
  out.commit = yaml.text_or("commit", "");
  out.note = yaml.text_or("note", "");
  const Yaml listed = yaml.at("plugins");
  const auto present = plugin_files(folder);
  for (const auto& [name, ops] : listed.entries()) {
    if (!std::ranges::count(present, fs::path(name))) {
      std::vector<std::string> names;
      for (const auto& one : present) names.push_back(one.string());
      ops.fail(
          "there is no plugin `" + excerpt(name) + "` in the folder",
          names.empty() ? "fk-host build makes plugins from sources" : did_you_mean(name, names));
    }
    out.plugins.push_back(read_plugin(out.folder / name, ops));
    check_ops(ops, out.plugins.back(), catalog);
  }
  for (const auto& one : present)
    if (!listed.has(one.string()))
      listed.fail("the folder also has the plugin `" + one.string() + "`",
                  "list all plugins, or move it away");
  if (out.plugins.empty()) listed.fail("the submission has no plugin");
  std::sort(out.plugins.begin(), out.plugins.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (size_t i = 1; i < out.plugins.size(); ++i)
    if (out.plugins[i].name == out.plugins[i - 1].name)
      listed.fail("two plugins have the name `" + out.plugins[i].name +
                  "`: " + out.plugins[i - 1].file.filename().string() + " and " +
                  out.plugins[i].file.filename().string());
  return out;
}

void check_submissions(const std::vector<Submission>& submissions) {
  std::map<std::string, const Submission*> names, plugins;
  for (const auto& s : submissions) {
    if (const auto [it, fresh] = names.emplace(s.name, &s); !fresh)
      fail(s.folder.string(),
           "the submission `" + s.name + "` is also in " + it->second->folder.string());
    for (const auto& plugin : s.plugins)
      if (const auto [it, fresh] = plugins.emplace(plugin.sha256, &s); !fresh)
        fail(plugin.file.string(),
             it->second == &s
                 ? "the same plugin is in the submission twice"
                 : "the same plugin is also in the submission `" + it->second->name + "`");
  }
}

}  // namespace fk
