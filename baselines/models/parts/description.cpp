// SPDX-License-Identifier: Apache-2.0
#include "baselines/models/parts/description.hpp"

#include <nlohmann/json.hpp>
#include <ranges>

#include "baselines/models/parts/sizes.hpp"

namespace fk::parts {

namespace {

constexpr std::string_view kFromConfig = "config.";

// "outer.key" is a key of the object `outer`.
Json value_at(const Config& config, const std::string& key) {
  const size_t dot = key.find('.');
  if (dot == std::string::npos) return config.has(key) ? config.json().at(key) : Json(nullptr);
  const std::string outer = key.substr(0, dot);
  return config.is_object(outer) ? value_at(config.child(outer), key.substr(dot + 1))
                                 : Json(nullptr);
}

bool holds(const Config& description, const Json& condition, const Config& config) {
  if (!condition.at("if").is_string()) description.fail("`if` names a key of the configuration");
  const std::string key = condition.at("if").get<std::string>();
  const Json value = value_at(config, key);
  if (condition.contains("is")) return value == condition.at("is");
  if (value.is_number()) return value != 0;
  return value.is_boolean() ? value.get<bool>() : !value.is_null();
}

// Marks the keys of both branches as known. A key of the branch which is not taken is no misspelt
// key.
void note_keys(const Json& value, const Config& config) {
  if (value.is_string()) {
    const std::string text = value.get<std::string>();
    config.has(text.starts_with(kFromConfig) ? text.substr(kFromConfig.size()) : text);
  }
  if (value.is_structured())
    for (const auto& item : value) note_keys(item, config);
}

Json resolve(const Config& description, const Json& value, const Config& config) {
  if (value.is_string() && value.get<std::string>().starts_with(kFromConfig))
    return value_at(config, value.get<std::string>().substr(kFromConfig.size()));
  if (value.is_array()) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(resolve(description, item, config));
    return list;
  }
  if (!value.is_object()) return value;
  if (value.contains("if")) {
    note_keys(value, config);
    const char* branch = holds(description, value, config) ? "then" : "else";
    return value.contains(branch) ? resolve(description, value.at(branch), config) : Json(nullptr);
  }
  Json object = Json::object();
  for (const auto& [key, item] : value.items()) object[key] = resolve(description, item, config);
  return object;
}

}  // namespace

Config resolved(const Config& description, const Config& config) {
  return Config(resolve(description, description.json(), config), description.where()).watched();
}

Config part_of(const Config& description, const char* key) {
  return description.has(key) ? description.child(key)
                              : Config(Json::object(), description.where() + "." + key);
}

int64_t read_described(const Config& sizes, const char* name, const char* usual,
                       const Config& config, int64_t most) {
  if (sizes.has(name) && sizes.is_number(name))
    return bounded(sizes, name, sizes.integer(name), most);
  const std::vector<std::string> keys =
      sizes.is_list(name) ? sizes.texts(name) : std::vector<std::string>{sizes.text(name, usual)};
  std::string key;
  for (const auto& each : keys | std::views::reverse)
    if (config.has(each) || key.empty()) key = each;
  return bounded(config, key, config.integer(key), most);
}

std::string word(const Config& from, const char* key, const std::vector<std::string>& words) {
  const std::string value = from.text(key, words.front());
  if (!contains(words, value))
    from.fail_at(key, "`" + excerpt(value) + "` is unknown", did_you_mean(value, words));
  return value;
}

void need_only(const Config& description, const Config& config) {
  const Config only = part_of(description, "only");
  for (const auto& [key, wanted] : only.json().items()) {
    const Json value = value_at(config, key);
    if (!value.is_null() && value != wanted)
      config.fail_at(key, "only " + wanted.dump() + " is supported");
  }
  description.ignore("only");
}

}  // namespace fk::parts
