// SPDX-License-Identifier: Apache-2.0
// The JSON Schema of a struct with fields (fields.hpp).
#pragma once
#include "core/base/fields.hpp"

namespace fk {

namespace visitors {

class Describer {
 public:
  Json properties = Json::object(), required = Json::array();

  template <class T>
  void operator()(const char* key, T& value, const char* meaning = "") {
    optional(key, value, true, meaning);
    required.push_back(key);
  }
  template <class T>
  void optional(const char* key, T& value, bool, const char* meaning = "") {
    Json entry = {{"description", meaning}};
    entry.update(schema(value));
    properties[key] = std::move(entry);
  }

  template <class T>
  static Json schema(T& value) {
    if constexpr (requires { T::kSchemaFile; }) {
      return {{"$ref", T::kSchemaFile}};  // a document of its own inside another one
    } else if constexpr (std::is_same_v<T, Json>) {
      return Json::object();
    } else if constexpr (std::is_same_v<T, double>) {
      return {{"type", {"number", "null"}}};
    } else if constexpr (std::is_same_v<T, bool>) {
      return {{"type", "boolean"}};
    } else if constexpr (std::is_integral_v<T>) {
      return {{"type", "integer"}};
    } else if constexpr (std::is_same_v<T, std::string> ||
                         std::is_same_v<T, std::filesystem::path>) {
      return {{"type", "string"}};
    } else if constexpr (Named<T>) {
      Json names = Json::array();
      for (const auto& [each, name] : json_names(value)) names.push_back(name);
      return {{"enum", std::move(names)}};
    } else if constexpr (IsOptional<T>::value) {
      typename T::value_type inner{};
      Json out = schema(inner);
      if (out["type"].is_string()) out["type"] = Json::array({out["type"], "null"});
      return out;
    } else if constexpr (IsList<T>::value) {
      typename T::value_type inner{};
      return {{"type", "array"}, {"items", schema(inner)}};
    } else if constexpr (IsMap<T>::value) {
      T inner{};
      return {{"type", "object"}, {"additionalProperties", schema(inner[""])}};
    } else {
      Describer inner;
      visit_all(inner, value);
      return {{"type", "object"},
              {"properties", std::move(inner.properties)},
              {"required", std::move(inner.required)},
              {"additionalProperties", false}};
    }
  }
};

}  // namespace visitors

/// The JSON Schema of such a document.
template <class T>
Json document_schema(const char* schema, const char* title) {
  T value{};
  Json described = visitors::Describer::schema(value);
  Json properties = {{"schema", {{"const", schema}}}}, required = Json::array({"schema"});
  properties.update(described["properties"]);
  for (const auto& key : described["required"]) required.push_back(key);
  described["properties"] = std::move(properties);
  described["required"] = std::move(required);
  Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", title}};
  out.update(described);
  return out;
}

}  // namespace fk
