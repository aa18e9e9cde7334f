// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/ranking.hpp"

#include <optional>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/device/device_files.hpp"

namespace fk {

namespace {

const Yaml& device_file(const std::vector<Yaml>& files, const std::string& device,
                        const Yaml& asker) {
  std::vector<std::string> names;
  for (const auto& file : files) {
    names.push_back(file.at("device").text());
    if (names.back() == device) return file;
  }
  asker.fail("there is no device `" + excerpt(device) + "`", did_you_mean(device, names));
}

// Where a file's ranking stands: its own, or that of the device which it names instead. Nothing if
// there is none.
std::optional<Yaml> ranking_in(const std::vector<Yaml>& files, const Yaml& file) {
  std::vector<std::string> seen = {file.at("device").text()};
  auto found = file.find("ranking");
  while (found && found->is_scalar()) {
    const std::string next = found->text();
    const Yaml& other = device_file(files, next, *found);
    if (contains(seen, next))
      found->fail("the ranking of `" + next + "` is its own", join(seen, " -> ") + " -> " + next);
    seen.push_back(next);
    const auto asker = *found;
    found = other.find("ranking");
    if (!found) asker.fail("the device `" + next + "` has no ranking");
  }
  return found;
}

}  // namespace

Ranking ranking_of(const std::string& device_name) {
  Ranking ranking;
  const auto files = device_files();
  for (const Yaml& file : files) {
    if (!is_of_kind(device_name, file.at("name").text())) continue;
    const auto listed = ranking_in(files, file);
    if (!listed) continue;
    const auto take = [&](const std::string& key, const Yaml& providers) {
      for (const auto& provider : providers.items()) ranking[key].push_back(provider.text());
    };
    for (const auto& [op, value] : listed->entries()) {
      if (value.is_list())
        take(op, value);
      else
        for (const auto& [phase, providers] : value.entries()) take(op + "." + phase, providers);
    }
  }
  return ranking;
}

const std::vector<std::string>* ranked(const Ranking& ranking, const std::string& op,
                                       const std::string& phase) {
  for (const std::string& key : {op + "." + phase, op})
    if (const auto it = ranking.find(key); it != ranking.end()) return &it->second;
  return nullptr;
}

}  // namespace fk
