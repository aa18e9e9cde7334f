// SPDX-License-Identifier: Apache-2.0
// fk-host coverage: how many of the model types of transformers run whole here, and of how many
// the ops are there.
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/base/yaml.hpp"
#include "core/cli/verb.hpp"
#include "core/contract/contract.hpp"
#include "core/exec/model.hpp"

namespace fk {
namespace {

struct CoverageArguments {
  std::filesystem::path file;
  bool names = false, missing = false;
};

bool runs_whole(const std::string& type) {
  try {
    arch_of(Config(Json{{"model_type", type}}, type));
    return true;
  } catch (const Error&) {
    return false;
  }
}

void print_names(const char* what, const std::vector<std::string>& names) {
  std::printf("  %s: %s\n", what, join(names, ", ").c_str());
}

// Types with a reason why there is no description of them: registry/left_out.yaml.
void print_left_out(const std::vector<std::string>& types) {
  const Yaml file = Yaml::load(paths::home() / "registry" / "left_out.yaml");
  for (const auto& [type, reason] : file.entries()) {
    if (runs_whole(type)) reason.fail("`" + type + "` runs whole: it is not left out");
    if (contains(types, type))
      std::printf("  left out: %s: %s\n", type.c_str(), reason.text().c_str());
  }
}

int coverage(const CoverageArguments& a) {
  const auto file = a.file.empty() ? paths::home() / "registry" / "model_types.json" : a.file;
  const Config list = Config::load(file);
  const Catalog catalog(paths::registry_dirs());
  std::vector<std::string> whole, ops_exist, unknown;
  std::map<std::string, int64_t> missing;  // by op: how many types lack nothing else
  for (const Config& entry : list.children("types")) {
    const std::string type = entry.text("type");
    std::vector<std::string> lacks;
    for (const auto& op : entry.texts("ops"))
      if (!catalog.find(op)) lacks.push_back(op);
    if (runs_whole(type))
      whole.push_back(type);
    else if (lacks.empty())
      ops_exist.push_back(type);
    else
      unknown.push_back(type);
    if (lacks.size() == 1) ++missing[lacks[0]];
  }
  std::printf("%zu model types of transformers %s\n",
              whole.size() + ops_exist.size() + unknown.size(), list.text("transformers").c_str());
  std::printf("  %4zu run whole\n  %4zu call nothing but ops that exist here\n  %4zu others\n",
              whole.size(), ops_exist.size(), unknown.size());
  if (a.names) {
    print_names("run whole", whole);
    print_names("ops exist", ops_exist);
  }
  if (!a.missing) return kExitOk;
  for (const auto& [op, count] : missing)
    std::printf("  %4lld types lack only %s\n", static_cast<long long>(count), op.c_str());
  ops_exist.insert(ops_exist.end(), unknown.begin(), unknown.end());
  print_left_out(ops_exist);
  return kExitOk;
}

std::function<int()> add_coverage(const Options& app) {
  auto a = std::make_shared<CoverageArguments>();
  app.add_option("FILE", a->file,
                 "a list by scripts/data/model_types.py; default: registry/model_types.json");
  app.add_flag("--names", a->names, "print the names of the types");
  app.add_flag("--missing", a->missing,
               "print ops that types lack alone, and needs of decoders which are left out");
  return [a] { return coverage(*a); };
}

FK_VERB(coverage, "count the model types of transformers that run here", add_coverage);

}  // namespace
}  // namespace fk
