// SPDX-License-Identifier: Apache-2.0
#include "core/service/remote_program.hpp"

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/machine.hpp"
#include "core/base/paths.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"
#include "core/plugin/discover.hpp"

namespace fk {

namespace fs = std::filesystem;

namespace {

using FileHashes = std::vector<std::pair<std::string, std::string>>;  // by name

std::string digest_of(FileHashes files) {
  std::sort(files.begin(), files.end());
  std::string text;
  for (const auto& [name, hash] : files) text += name + " " + hash + "\n";
  return sha256(text);
}

// Files from which cases are made. Rankings in `devices` belong to a machine.
std::string registry_digest() {
  FileHashes files;
  for (const auto& dir : paths::registry_dirs())
    for (const char* part : {"ops", "models", "configs"}) {
      std::error_code none;  // a further folder has only some parts
      for (const auto& entry : fs::recursive_directory_iterator(dir / part, none))
        if (entry.is_regular_file())
          files.emplace_back(fs::relative(entry.path(), dir).string(), sha256_file(entry.path()));
    }
  return digest_of(std::move(files));
}

std::string baselines_digest() {
  FileHashes files;
  for (const auto& file : baseline_files())
    files.emplace_back(file.filename().string(), sha256_file(file));
  return digest_of(std::move(files));
}

}  // namespace

RemoteProgram own_remote_program() {
  return {FK_VERSION, own_build_id(), registry_digest(), baselines_digest()};
}

std::string difference_of(const RemoteProgram& worker, const RemoteProgram& server) {
  constexpr size_t kShown = 12;  // of a hash
  for (const auto& [what, mine, theirs] :
       {std::tuple("version", worker.version, server.version),
        std::tuple("build", worker.build, server.build),
        std::tuple("registry", worker.registry, server.registry),
        std::tuple("set of baselines", worker.baselines, server.baselines)})
    if (mine != theirs)
      return std::string("its ") + what + " is " + excerpt(mine, kShown) + ", the server's is " +
             excerpt(printable(theirs), kShown);
  return {};
}

}  // namespace fk
