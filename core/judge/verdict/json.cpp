// SPDX-License-Identifier: Apache-2.0
// A verdict as JSON, to and from it, and its JSON Schema: three visitors of fields.hpp.
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/judge/verdict/fields.hpp"

namespace fk {

namespace {

template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_same_v<T, std::string>;

constexpr Speed kSpeeds[] = {Speed::faster, Speed::same, Speed::slower, Speed::unknown};

class Writer {
 public:
  Json out = Json::object();

  template <class T>
  void operator()(const char* key, T& value, const char*) {
    out[key] = json(value);
  }

  template <class T>
  static Json json(T& value) {
    if constexpr (std::is_same_v<T, double>) {
      return std::isfinite(value) ? Json(value) : Json(nullptr);
    } else if constexpr (Plain<T>) {
      return value;
    } else if constexpr (std::is_same_v<T, Status>) {
      return name_of(value);
    } else if constexpr (std::is_same_v<T, Speed>) {
      return speed_name(value);
    } else if constexpr (IsOptional<T>::value) {
      return value ? json(*value) : Json(nullptr);
    } else if constexpr (IsList<T>::value) {
      Json list = Json::array();
      for (auto& entry : value) list.push_back(json(entry));
      return list;
    } else {
      Writer inner;
      fields(inner, value);
      return std::move(inner.out);
    }
  }
};

class Reader {
 public:
  Reader(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) fail(where_, "is no object");
  }

  template <class T>
  void operator()(const char* key, T& value, const char*) {
    // Another version of the host may have other fields; known ones must be valid.
    const auto found = json_.find(key);
    if (found != json_.end()) read(*found, value, where_ + "." + key);
  }

  template <class T>
  static void read(const Json& json, T& value, const std::string& where) {
    if constexpr (std::is_same_v<T, double>) {
      if (!json.is_number() && !json.is_null()) fail(where, "is no number");
      value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) fail(where, "is neither true nor false");
      value = json.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      if (!json.is_number_integer()) fail(where, "is no whole number");
      value = json.get<T>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_string()) fail(where, "is no text");
      value = json.get<std::string>();
    } else if constexpr (std::is_same_v<T, Status> || std::is_same_v<T, Speed>) {
      read_name(json, value, where);
    } else if constexpr (IsOptional<T>::value) {
      if (json.is_null()) return value.reset();
      read(json, value.emplace(), where);
    } else if constexpr (IsList<T>::value) {
      if (!json.is_array()) fail(where, "is no list");
      value.clear();
      for (const auto& entry : json)
        read(entry, value.emplace_back(), where + "[" + std::to_string(value.size()) + "]");
    } else {
      Reader inner(json, where);
      fields(inner, value);
    }
  }

 private:
  static void read_name(const Json& json, Status& value, const std::string& where) {
    const auto status = json.is_string() ? status_of(json.get<std::string>()) : std::nullopt;
    if (!status) fail(where, "is no status");
    value = *status;
  }
  static void read_name(const Json& json, Speed& value, const std::string& where) {
    for (const Speed speed : kSpeeds)
      if (json == speed_name(speed)) {
        value = speed;
        return;
      }
    fail(where, "is neither faster, same, slower nor cannot tell");
  }

  const Json& json_;
  std::string where_;
};

class Describer {
 public:
  Json properties = Json::object(), required = Json::array();

  template <class T>
  void operator()(const char* key, T& value, const char* meaning) {
    Json entry = {{"description", meaning}};
    entry.update(schema(value));
    properties[key] = std::move(entry);
    required.push_back(key);
  }

  template <class T>
  static Json schema(T& value) {
    if constexpr (std::is_same_v<T, double>) {
      return {{"type", {"number", "null"}}};
    } else if constexpr (std::is_same_v<T, bool>) {
      return {{"type", "boolean"}};
    } else if constexpr (std::is_integral_v<T>) {
      return {{"type", "integer"}};
    } else if constexpr (std::is_same_v<T, std::string>) {
      return {{"type", "string"}};
    } else if constexpr (std::is_same_v<T, Status>) {
      Json names = Json::array();
      for (const auto& info : statuses()) names.push_back(info.name);
      return {{"enum", std::move(names)}};
    } else if constexpr (std::is_same_v<T, Speed>) {
      Json names = Json::array();
      for (const Speed speed : kSpeeds) names.push_back(speed_name(speed));
      return {{"enum", std::move(names)}};
    } else if constexpr (IsOptional<T>::value) {
      typename T::value_type inner{};
      Json out = schema(inner);
      if (out["type"].is_string()) out["type"] = Json::array({out["type"], "null"});
      return out;
    } else if constexpr (IsList<T>::value) {
      typename T::value_type inner{};
      return {{"type", "array"}, {"items", schema(inner)}};
    } else {
      Describer inner;
      fields(inner, value);
      return {{"type", "object"},
              {"properties", std::move(inner.properties)},
              {"required", std::move(inner.required)},
              {"additionalProperties", false}};
    }
  }
};

}  // namespace

Json to_json(const Verdict& verdict) {
  Verdict copy = verdict;
  Json out = {{"schema", kVerdictSchema}};
  out.update(Writer::json(copy));
  return out;
}

Verdict verdict_from(const Json& json, const std::string& name) {
  if (!json.is_object()) fail(name, "is no JSON object");
  const std::string schema = json.contains("schema") && json["schema"].is_string()
                                 ? json["schema"].get<std::string>()
                                 : "";
  if (schema != kVerdictSchema)
    fail(name, "has the schema `" + excerpt(schema) + "`",
         std::string("this host knows ") + kVerdictSchema);
  Json rest = json;
  rest.erase("schema");
  Verdict out;
  Reader::read(rest, out, name);
  return out;
}

Json verdict_schema() {
  Verdict verdict;
  Json out = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
              {"title", "What fk-host says about a candidate"}};
  out.update(Describer::schema(verdict));
  Json properties = {{"schema", {{"const", kVerdictSchema}}}};
  properties.update(out["properties"]);
  out["properties"] = std::move(properties);
  Json required = Json::array({"schema"});
  for (const auto& key : out["required"]) required.push_back(key);
  out["required"] = std::move(required);
  return out;
}

}  // namespace fk
