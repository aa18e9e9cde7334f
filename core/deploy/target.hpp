// SPDX-License-Identifier: Apache-2.0
// A target of `fk-host package`: a framework in which a plugin runs in production. One file
// core/deploy/<target>.cpp registers one target; there is no central list.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/contract/contract.hpp"
#include "core/plugin/notes.hpp"

namespace fk {

// Contents by path, relative to the folder that a package fills.
using PackageFiles = std::map<std::string, std::string>;

struct OpRefusal {
  std::string op, why;  // why: a sentence without a full stop
};

// A plugin with all that its packages have in common.
struct PackagedPlugin {
  std::filesystem::path file;
  std::string plugin;            // its own name
  std::string name;              // of the Python package: fk_<plugin>
  std::string version;           // the plugin's, and the beginning of its content's hash
  std::string names;             // of its ops in torch: torch.ops.<names>
  std::string device;            // cpu or cuda
  std::string sm;                // compute capabilities with code, such as "90a 100a"
  std::vector<std::string> ops;  // those that torch can have
  std::vector<OpRefusal> refused;
};

// Reads the notes of a plugin and decides which of its ops torch can have. Error when it can have
// none. `names`: the namespace in torch.ops.
PackagedPlugin packaged_plugin(const FoundPlugin& found, const Catalog& catalog,
                               const std::string& names);

struct DeployTarget {
  std::string name;
  std::string help;  // one line
  // The files of the package, its README among them. Moves the ops that the target has no place for
  // from `ops` to `refused`. Error when none is left, or when the device does not fit.
  PackageFiles (*make)(PackagedPlugin& plugin) = nullptr;
};

// Ordered by name.
std::vector<DeployTarget> deploy_targets();

struct DeployTargetRegistration {
  DeployTargetRegistration(const char* name, const char* help,
                           PackageFiles (*make)(PackagedPlugin&));
};

// Parts of targets.

// The files of the Python package: plugin, shim, loader, `about.json`, and the named extra files of
// plugin_api/adapters/deploy. Paths begin with the package's name.
PackageFiles python_package(const PackagedPlugin& plugin, const std::vector<std::string>& extra);
// A wheel of `files`: name of the file, and its bytes. `requirements` as in its metadata;
// `entry_points` is the text of entry_points.txt, or empty.
std::pair<std::string, std::string> wheel_of(const PackagedPlugin& plugin,
                                             const PackageFiles& files,
                                             const std::vector<std::string>& requirements,
                                             const std::string& entry_points);
// A text of plugin_api/adapters/deploy, with `@NAME@`, `@NAMES@`, `@PLUGIN@`, `@DEVICE@`, `@WHEEL@`
// and `@OPS@` replaced.
std::string deploy_text(const PackagedPlugin& plugin, const std::string& file,
                        const std::string& wheel);
// SHA-256 in base64: as the Hub has it, and without padding for URLs, as wheels have it.
std::string base64_sha256(const std::string& content, bool for_urls = false);
std::string replaced_text(std::string text, const std::string& from, const std::string& to);
// Moves these ops to the refused ones. Error when no op is left.
void refuse_ops(PackagedPlugin& plugin, const std::vector<std::string>& ops,
                const std::string& why);
// Keeps only ops of `known`: others are refused with "<target> has no place for it".
void keep_known_ops(PackagedPlugin& plugin, const std::vector<std::string>& known,
                    const std::string& target);

}  // namespace fk

// At file scope: FK_DEPLOY_TARGET(torch, "ops of torch", make_torch);
#define FK_DEPLOY_TARGET(name, help, make) \
  static const ::fk::DeployTargetRegistration fk_target_##name(#name, help, make)
