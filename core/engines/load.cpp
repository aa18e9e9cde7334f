// SPDX-License-Identifier: Apache-2.0
#include "core/engines/load.hpp"

#include <algorithm>
#include <map>

#include "core/base/error.hpp"

namespace fk {

namespace {

std::map<std::string, EngineKind>& engine_table() {
  static auto* kinds = new std::map<std::string, EngineKind>;
  return *kinds;
}

}  // namespace

EngineRegistration::EngineRegistration(const char* name, EngineKind kind) {
  engine_table()[name] = std::move(kind);
}

std::vector<std::string> engine_names() {
  std::vector<std::string> names;
  for (const auto& [name, kind] : engine_table()) names.push_back(name);
  return names;
}

const EngineKind& engine_kind(const std::string& name) {
  const auto it = engine_table().find(name);
  FK_CHECK(it != engine_table().end(), "an engine without FK_ENGINE");
  return it->second;
}

WorkloadKeys::WorkloadKeys(Yaml yaml, bool tiny) {
  if (tiny) {
    if (const auto found = yaml.find("tiny")) layers_.push_back(*found);
  }
  layers_.push_back(std::move(yaml));
}

bool WorkloadKeys::has(std::string_view key) const {
  return std::any_of(layers_.begin(), layers_.end(), [&](const Yaml& y) { return y.has(key); });
}

int64_t WorkloadKeys::get(std::string_view key, int64_t least, int64_t most) const {
  for (const Yaml& layer : layers_) {
    if (!layer.has(key)) continue;
    const Yaml value = layer.at(key);
    const int64_t number = value.integer();
    if (number < least || number > most)
      value.fail(
          "`" + std::string(key) + "` must be at " +
          (number < least ? "least " + std::to_string(least) : "most " + std::to_string(most)));
    return number;
  }
  return layers_.back().at(key).integer();  // Error: the key is absent
}

int64_t WorkloadKeys::get(std::string_view key, int64_t least, int64_t most,
                          int64_t fallback) const {
  return has(key) ? get(key, least, most) : fallback;
}

}  // namespace fk
