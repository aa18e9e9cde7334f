// SPDX-License-Identifier: Apache-2.0
#include "core/report/document_values.hpp"

#include <cmath>

#include "core/base/text.hpp"

namespace fk {

const Json& at_key(const Json& json, std::string_view key) {
  static const Json nothing;
  if (!json.is_object()) return nothing;
  const auto found = json.find(std::string(key));
  return found == json.end() ? nothing : *found;
}

const Json::array_t& list_at(const Json& json, std::string_view key) {
  static const Json::array_t nothing;
  const Json& list = at_key(json, key);
  return list.is_array() ? list.get_ref<const Json::array_t&>() : nothing;
}

std::string text_at(const Json& json, std::string_view key) {
  const Json& value = at_key(json, key);
  return value.is_string() ? value.get<std::string>() : "";
}

std::optional<double> number_at(const Json& json, std::string_view key) {
  const Json& value = at_key(json, key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) return std::nullopt;
  return value.get<double>();
}

bool flag_at(const Json& json, std::string_view key) {
  const Json& value = at_key(json, key);
  return value.is_boolean() && value.get<bool>();
}

std::string texts_at(const Json& json, std::string_view key, std::string_view between) {
  std::vector<std::string> out;
  for (const Json& one : list_at(json, key))
    if (one.is_string()) out.push_back(one.get<std::string>());
  return join(out, between);
}

std::string kind_of_document(const Json& json) {
  const std::string schema = text_at(json, "schema");
  const auto slash = schema.rfind('/');
  return schema.starts_with("fk-host.") && slash != std::string::npos ? schema.substr(0, slash)
                                                                      : "";
}

}  // namespace fk
