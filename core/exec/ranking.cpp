// SPDX-License-Identifier: Apache-2.0
// Reads rankings from the files of registry/devices (ranking.hpp).
#include "core/exec/ranking.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/paths.hpp"
#include "core/base/text.hpp"
#include "core/contract/contract.hpp"
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

// A file's ranking: its own, or that of the device that it names. Nothing: none.
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

std::vector<std::string> texts(const Yaml& list) {
  std::vector<std::string> out;
  for (const auto& item : list.items()) out.push_back(item.text());
  return out;
}

RankedProviders read_ranked(const Yaml& entry) {
  if (entry.is_list()) return {{}, texts(entry)};
  entry.only({"where", "providers"});
  RankedProviders out{{}, texts(entry.at("providers"))};
  for (const auto& [of, limits] : entry.at("where").entries()) {
    limits.only({"at_least", "at_most"});
    Expr::parse(of, limits.where());
    SizeBound bound{of};
    bound.at_least = limits.integer_or("at_least", bound.at_least);
    bound.at_most = limits.integer_or("at_most", bound.at_most);
    if (limits.size() == 0) limits.fail("no bound of `" + excerpt(of) + "`", "at_least, at_most");
    out.where.push_back(bound);
  }
  return out;
}

// A list of lists is a ranking by sizes; a list of names is for every call.
std::vector<RankedProviders> read_op(const Yaml& value) {
  const auto items = value.items();
  if (items.empty()) value.fail("no provider is named");
  if (items.front().is_scalar()) return {read_ranked(value)};
  std::vector<RankedProviders> out;
  for (const auto& item : items) {
    if (!out.empty() && out.back().where.empty())
      item.fail("comes after a list without `where`, so it never applies",
                "move lists with a `where` first");
    out.push_back(read_ranked(item));
  }
  return out;
}

}  // namespace

void to_json(Json& json, const RankedProviders& ranked) {
  Json where = Json::array();
  for (const auto& bound : ranked.where) where.push_back({bound.of, bound.at_least, bound.at_most});
  json = {{"where", std::move(where)}, {"providers", ranked.providers}};
}
void from_json(const Json& json, RankedProviders& ranked) {
  json.at("providers").get_to(ranked.providers);
  for (const auto& bound : json.at("where"))
    ranked.where.push_back(
        {bound.at(0).get<std::string>(), bound.at(1).get<int64_t>(), bound.at(2).get<int64_t>()});
}

Ranking ranking_of(const std::string& device_name) {
  Ranking ranking;
  const std::vector<std::string> ops = Catalog(paths::registry_dirs()).ops();
  const auto files = device_files();
  for (const Yaml& file : files) {
    if (!is_of_kind(device_name, file.at("name").text())) continue;
    const auto listed = ranking_in(files, file);
    if (!listed) continue;
    for (const auto& [op, value] : listed->entries()) {
      if (!contains(ops, op))
        value.fail("the ranking names the op `" + excerpt(op) + "`, which does not exist",
                   did_you_mean(op, ops));
      ranking[op] = read_op(value);
    }
  }
  return ranking;
}

const std::vector<std::string>* ranked(const Ranking& ranking, const std::string& op,
                                       const Axes& axes) {
  const auto of_op = ranking.find(op);
  if (of_op == ranking.end()) return nullptr;
  for (const RankedProviders& one : of_op->second) {
    const bool holds = std::ranges::all_of(one.where, [&](const SizeBound& bound) {
      return bound.holds(Expr::parse(bound.of, "the ranking of " + op).eval(axes));
    });
    if (holds) return &one.providers;
  }
  return nullptr;
}

}  // namespace fk
