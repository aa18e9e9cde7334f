// SPDX-License-Identifier: Apache-2.0
// Target hf: the layout of a kernel repository on the Hugging Face Hub, with one build variant. Its
// name has the oldest torch, whose stable ABI the shim uses, and the plugin's CUDA.
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/json.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/deploy/target.hpp"
#include "core/base/elf.hpp"

namespace fk {
namespace {

#if defined(__aarch64__)
constexpr const char* kMachine = "aarch64-linux";
#else
constexpr const char* kMachine = "x86_64-linux";
#endif

// "cu130" by the CUDA runtime that the plugin links. The Hub wants a minor version: plugins run
// with each minor of their major, and this is the lowest that fk-host builds with.
std::string cuda_of(const PackagedPlugin& plugin) {
  for (const auto& library : Elf(plugin.file).entry_texts(DT_NEEDED)) {
    if (library.starts_with("libcudart.so.13")) return "cu130";
    if (library.starts_with("libcudart.so.12")) return "cu128";
  }
  fail(plugin.plugin, "it links no CUDA runtime of version 12 or 13, so its variant has no name",
       "link libcudart");
}

// "90a 100" as "9.0a", "10.0".
std::vector<std::string> archs_of(const std::string& sm) {
  std::vector<std::string> out;
  for (std::string one : split(sm, ' ')) {
    if (one.empty()) continue;
    const size_t digits = one.find_first_not_of("0123456789");
    one.insert((digits == one.npos ? one.size() : digits) - 1, ".");
    out.push_back(one);
  }
  return out;
}

PackageFiles make_hf(PackagedPlugin& plugin) {
  const bool cuda = plugin.device == "cuda";
  const std::string variant =
      "torch-stable-abi210-" + (cuda ? cuda_of(plugin) : "cpu") + "-" + kMachine;
  // The Hub wants ops in torch.ops.<id>, and an id for each content.
  const std::string hash = plugin.version.substr(plugin.version.rfind('g') + 1);
  plugin.names = "_" + plugin.name + "_" + plugin.device + "_" + hash;
  const std::string folder = "build/" + variant + "/";
  PackageFiles files;
  Json digests = Json::object();
  const auto add = [&](const std::string& name, const std::string& content) {
    files[folder + name] = content;
    digests[name] = base64_sha256(content);
  };
  for (const auto& [name, content] : python_package(plugin, {}))
    add(name.substr(plugin.name.size() + 1), content);
  add("_ops.py", deploy_text(plugin, "hf_ops.py", ""));
  add(plugin.name + "/__init__.py", deploy_text(plugin, "hf_compatible.py", ""));
  Json backend = {{"type", plugin.device}};
  if (cuda) backend["archs"] = archs_of(plugin.sm);
  const Json metadata = {{"id", plugin.names},
                         {"name", replaced_text(plugin.name, "_", "-")},
                         {"version", 1},
                         {"license", "other"},
                         {"python-depends", Json::array()},
                         {"backend", backend},
                         {"digest", {{"algorithm", "sha256"}, {"files", digests}}}};
  files[folder + "metadata.json"] = metadata.dump(1) + "\n";
  files["README.md"] = deploy_text(plugin, "hf.md", variant);
  return files;
}

FK_DEPLOY_TARGET(hf, "a kernel repository of the Hugging Face Hub", make_hf);

}  // namespace
}  // namespace fk
