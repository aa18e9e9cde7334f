// SPDX-License-Identifier: Apache-2.0
#include "core/deploy/target.hpp"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/json.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOldestTorch = "2.10";  // the shim's kOldestTorch
constexpr size_t kLargestPlugin = size_t{1} << 31;

std::vector<DeployTarget>& registered_targets() {
  static std::vector<DeployTarget> list;
  return list;
}

// The first of these files that exists.
fs::path first_file(const std::vector<fs::path>& files, const std::string& what,
                    const std::string& hint) {
  std::error_code ignored;
  for (const auto& file : files)
    if (fs::is_regular_file(file, ignored)) return file;
  fail_host("package", what + " is not at " + files.front().string(), hint);
}

fs::path adapter_file(const std::string& name) {
  return first_file(
      {paths::home() / "plugin_api/adapters" / name, paths::home() / "adapters" / name}, name, "");
}

fs::path shim_file() {
  const fs::path program = paths::executable_dir();
  return first_file({program / "shim/fk_torch.so", program / "../lib/fk-host/shim/fk_torch.so"},
                    "the shim for torch", "ninja -C build fk_torch");
}

// A version as Python's packaging accepts it, with the content's hash as its local part.
std::string python_version(const std::string& version, const std::string& hash) {
  std::string out;
  for (const char c : version) {
    const bool digit = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (!digit && !(c == '.' && !out.empty() && out.back() != '.')) break;
    out += c;
  }
  while (!out.empty() && out.back() == '.') out.pop_back();
  return (out.empty() ? "0" : out) + "+g" + hash.substr(0, 8);
}

std::string identifier(std::string text) {
  for (char& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return lower(text);
}

// Why torch cannot have the op; empty: it can.
std::string torch_refusal(const Contract& contract) {
  if (contract.comm()) return "its ranks need a communicator, which a package does not have";
  for (const auto& slot : contract.section(SectionId::forward))
    if (slot.is_tensor() && slot.role == Role::out && !slot.optional && !slot.list.empty())
      return "it returns a list of tensors";
  return {};
}

}  // namespace

std::string replaced_text(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::vector<DeployTarget> deploy_targets() {
  auto list = registered_targets();
  std::sort(list.begin(), list.end(),
            [](const DeployTarget& a, const DeployTarget& b) { return a.name < b.name; });
  return list;
}

DeployTargetRegistration::DeployTargetRegistration(const char* name, const char* help,
                                                   PackageFiles (*make)(PackagedPlugin&)) {
  registered_targets().push_back({name, help, make});
}

PackagedPlugin packaged_plugin(const FoundPlugin& found, const Catalog& catalog,
                               const std::string& names) {
  if (!found.error.empty()) fail(found.path.string(), found.error);
  PackagedPlugin out;
  out.file = found.path;
  out.plugin = found.note.name;
  out.name = "fk_" + identifier(found.note.name);
  out.version = python_version(found.note.version, sha256_file(found.path));
  out.names = names;
  out.sm = found.note.sm;
  out.device = found.note.sm.empty() ? "cpu" : "cuda";
  for (const auto& op : found.note.ops) {
    std::string why = note_mismatch(op, catalog);
    if (why.empty()) why = torch_refusal(catalog.at(op.op));
    if (why.empty())
      out.ops.push_back(op.op);
    else
      out.refused.push_back({op.op, why});
  }
  std::sort(out.ops.begin(), out.ops.end());
  if (out.ops.empty())
    fail(out.plugin, out.refused.empty() ? "it has no ops"
                                         : out.refused.front().op + ": " + out.refused.front().why);
  return out;
}

PackageFiles python_package(const PackagedPlugin& plugin, const std::vector<std::string>& extra) {
  PackageFiles files;
  const std::string folder = plugin.name + "/", library = plugin.name + "_kernels.so";
  for (const char* file : {"__init__.py", "ops.py"})
    files[folder + file] = read_file(adapter_file(std::string("deploy/") + file));
  for (const auto& file : extra) files[folder + file] = read_file(adapter_file("deploy/" + file));
  files[folder + "fk_plugin.py"] = read_file(adapter_file("torch/fk_plugin.py"));
  files[folder + "fk_torch.so"] = read_file(shim_file());
  files[folder + library] = read_file(plugin.file, kLargestPlugin);
  const Json about = {{"name", plugin.name},       {"plugin", library},
                      {"version", plugin.version}, {"namespace", plugin.names},
                      {"device", plugin.device},   {"torch", kOldestTorch},
                      {"ops", plugin.ops}};
  files[folder + "about.json"] = about.dump(1) + "\n";
  return files;
}

std::string deploy_text(const PackagedPlugin& plugin, const std::string& file,
                        const std::string& wheel) {
  std::string text = read_file(adapter_file("deploy/" + file));
  text = replaced_text(text, "@NAME@", plugin.name);
  text = replaced_text(text, "@NAMES@", plugin.names);
  text = replaced_text(text, "@PLUGIN@", plugin.plugin);
  text = replaced_text(text, "@DEVICE@", plugin.device);
  text = replaced_text(text, "@WHEEL@", wheel);
  return replaced_text(text, "@OPS@", join(plugin.ops, ", "));
}

void refuse_ops(PackagedPlugin& plugin, const std::vector<std::string>& ops,
                const std::string& why) {
  std::vector<std::string> kept;
  for (const auto& op : plugin.ops) {
    if (contains(ops, op))
      plugin.refused.push_back({op, why});
    else
      kept.push_back(op);
  }
  if (kept.empty()) fail(plugin.plugin, join(plugin.ops, ", ") + ": " + why);
  plugin.ops = kept;
}

void keep_known_ops(PackagedPlugin& plugin, const std::vector<std::string>& known,
                    const std::string& target) {
  std::vector<std::string> others;
  for (const auto& op : plugin.ops)
    if (!contains(known, op)) others.push_back(op);
  refuse_ops(plugin, others, target + " has no place for it");
}

}  // namespace fk
