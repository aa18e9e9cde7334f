// SPDX-License-Identifier: Apache-2.0
// fk-host package PLUGIN --for TARGET: writes a plugin as a package of a production framework.
#include <cctype>
#include <cstdio>
#include <map>
#include <memory>

#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/check/plugin_set.hpp"
#include "core/cli/candidate.hpp"
#include "core/cli/verb.hpp"
#include "core/deploy/target.hpp"

namespace fk {
namespace {

namespace fs = std::filesystem;

struct PackageArguments {
  std::string plugin, target, names = "fk";
  fs::path out;
};

DeployTarget target_named(const std::string& name) {
  std::vector<std::string> known;
  for (const auto& target : deploy_targets()) {
    if (target.name == name) return target;
    known.push_back(target.name);
  }
  fail("--for", "there is no target `" + excerpt(name) + "`", did_you_mean(name, known));
}

void check_namespace(const std::string& names) {
  bool good = !names.empty() && std::isalpha(static_cast<unsigned char>(names[0]));
  for (const char c : names) good &= std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  if (!good)
    fail("--namespace", "`" + excerpt(names) + "` is no name in Python",
         "letters, digits and _, a letter first");
}

int package(const PackageArguments& a) {
  const DeployTarget target = target_named(a.target);
  check_namespace(a.names);
  const Catalog catalog(paths::registry_dirs());
  const FoundPlugin found = PluginSet::find(catalog).plugin(a.plugin);
  if (const auto stale = stale_build(found.path); !stale.empty())
    fail(a.plugin, stale, "fk-host build " + a.plugin);
  PackagedPlugin plugin = packaged_plugin(found, catalog, a.names);
  const PackageFiles files = target.make(plugin);
  const fs::path out = a.out.empty() ? fs::path(plugin.name + "_" + target.name) : a.out;
  std::error_code code;
  if (fs::exists(out, code) && !fs::is_empty(out, code))
    fail(out.string(), "it is there already, and not empty", "delete it, or choose another --out");
  for (const auto& [name, content] : files) write_file_atomic(out / name, content);
  std::printf("%s: %s for %s, %zu ops (%s)\n", out.c_str(), plugin.plugin.c_str(),
              target.name.c_str(), plugin.ops.size(), join(plugin.ops, ", ").c_str());
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const auto& [op, why] : plugin.refused) by_reason[why].push_back(op);
  for (const auto& [why, ops] : by_reason)
    std::printf("refused: %s: %s\n", join(ops, ", ").c_str(), why.c_str());
  std::printf("next: %s\n", (out / "README.md").c_str());
  return kExitOk;
}

std::function<int()> add_package(const Options& app) {
  auto a = std::make_shared<PackageArguments>();
  app.add_option("PLUGIN", a->plugin, "a candidate, a baseline, or a .so file").required();
  std::string help;
  for (const auto& target : deploy_targets())
    help += (help.empty() ? "" : "; ") + target.name + ": " + target.help;
  app.add_option("--for", a->target, help).required();
  app.add_option("--out", a->out,
                 "the new folder; default fk_PLUGIN_TARGET, for example fk_mine_torch");
  app.add_option("--namespace", a->names, "namespace of the ops in torch.ops; default fk");
  return [a] { return package(*a); };
}

FK_VERB(package, "write a plugin as a package for torch, vLLM, SGLang or the Hugging Face Hub",
        add_package);

}  // namespace
}  // namespace fk
