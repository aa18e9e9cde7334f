// SPDX-License-Identifier: Apache-2.0
// Finds the contracts of a registry by file name, and parses each one on first use.
#include "core/base/error.hpp"
#include "core/base/io.hpp"
#include "core/base/text.hpp"
#include "core/contract/contract.hpp"

namespace fk {

Catalog::Catalog(const std::vector<std::filesystem::path>& registry_dirs) {
  for (const auto& dir : registry_dirs) {
    const auto ops = dir / "ops";
    if (!std::filesystem::is_directory(ops)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(ops)) {
      if (entry.path().extension() != ".yaml") continue;
      const auto [it, fresh] = files_.emplace(entry.path().stem(), entry.path());
      if (!fresh)
        fail(entry.path().string(),
             "the op `" + it->first + "` has a contract already: " + it->second.string());
    }
  }
}
const Contract* Catalog::find(const std::string& op) const {
  const auto file = files_.find(op);
  if (file == files_.end()) return nullptr;
  auto& slot = loaded_[op];
  if (slot) return slot.get();
  const auto known = texts_.find(op);
  const std::string text = known == texts_.end() ? read_file(file->second) : known->second;
  slot = std::make_unique<Contract>(Contract::load(file->second, text));
  return slot.get();
}
void Catalog::read_ahead() {
  for (const auto& [op, file] : files_)
    if (!loaded_.count(op)) texts_[op] = read_file(file);
}
const Contract& Catalog::at(const std::string& op) const {
  if (const Contract* c = find(op)) return *c;
  fail("registry", "there is no op `" + op + "`", did_you_mean(op, ops()));
}
std::vector<std::string> Catalog::ops() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : files_) names.push_back(name);
  return names;
}

}  // namespace fk
