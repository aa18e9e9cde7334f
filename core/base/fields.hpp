// SPDX-License-Identifier: Apache-2.0
// The JSON of a struct from one list of its fields. Beside the struct stands
//   template <class Visitor>
//   void fields(Visitor& v, Thing& t) {
//     v("key", t.member, "meaning");
//     v.optional("other", t.other, !t.other.empty(), "a key that may be missing");
//   }
// or FK_FIELDS in the struct (field_list.hpp). Three visitors use the list: to_fields() writes,
// read_fields() reads, and document_schema() makes the JSON Schema (schema.hpp). A field may be a
// number, a boolean, a text, another such struct, an optional, a list, a map by text, or any Json.
// Two hooks, found by the argument's type, add more:
//   json_names(E)                          pairs of an enumeration's values and names
//   json_value(const T&), json_value(const Json&, T&)   a type with a form of its own
#pragma once
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/field_list.hpp"
#include "core/base/json.hpp"
#include "core/base/text.hpp"

namespace fk {

/// How strictly a struct is read.
struct Reading {
  bool complete = false;  ///< a missing key is an Error; else its member keeps its value
  /// Longer texts are cut. With `foreign` control characters become `?`, except those in `kept`.
  std::size_t text_bytes_max = std::numeric_limits<std::size_t>::max();
  bool foreign = false;
  std::string_view kept = "";
};
/// A message of this program to itself: every key is there.
inline constexpr Reading kOwnMessage{.complete = true};
/// A message of a process that may run a candidate's code. Its texts become single lines.
inline constexpr Reading kForeignMessage{.complete = true, .text_bytes_max = 8192, .foreign = true};
/// The same, where a text may have several lines.
inline constexpr Reading kForeignText{
    .complete = true, .text_bytes_max = 8192, .foreign = true, .kept = "\n\t"};

namespace visitors {

template <class T>
struct IsList : std::false_type {};
template <class T>
struct IsList<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsMap : std::false_type {};
template <class T, class Order>
struct IsMap<std::map<std::string, T, Order>> : std::true_type {};
template <class T>
concept Named = std::is_enum_v<T> && requires(T t) {
  json_names(t);
};
template <class T>
concept OwnForm = requires(const T& t) {
  json_value(t);
};

template <class Visitor, class T>
void visit_all(Visitor& visitor, T& value) {
  if constexpr (requires { value.visit_fields(visitor); })
    value.visit_fields(visitor);
  else
    fields(visitor, value);
}

class Writer {
 public:
  Json out = Json::object();

  template <class T>
  void operator()(const char* key, T& value, const char* = "") {
    out[key] = json(value);
  }
  template <class T>
  void optional(const char* key, T& value, bool there, const char* = "") {
    if (there) out[key] = json(value);
  }

  template <class T>
  static Json json(const T& value) {
    if constexpr (std::is_same_v<T, double>) {
      return std::isfinite(value) ? Json(value) : Json(nullptr);  // JSON has no infinity
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                         std::is_same_v<T, Json>) {
      return value;
    } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
      return value.string();
    } else if constexpr (Named<T>) {
      for (const auto& [each, name] : json_names(value))
        if (each == value) return name;
      return nullptr;
    } else if constexpr (OwnForm<T>) {
      return json_value(value);
    } else if constexpr (IsOptional<T>::value) {
      return value ? json(*value) : Json(nullptr);
    } else if constexpr (IsList<T>::value) {
      Json list = Json::array();
      for (const auto& entry : value) list.push_back(json<typename T::value_type>(entry));
      return list;
    } else if constexpr (IsMap<T>::value) {
      Json map = Json::object();
      for (const auto& [key, entry] : value) map[key] = json(entry);
      return map;
    } else {
      Writer inner;
      visit_all(inner, const_cast<T&>(value));  // a reader writes to it, this one does not
      return std::move(inner.out);
    }
  }
};

/// A value inside a document, for messages.
struct Place {
  const Place* above = nullptr;
  std::string_view key;
  std::size_t number = 0;  // in a list, from 1 on; 0: a key

  std::string text() const {
    if (!above) return std::string(key);
    return above->text() + (number ? "[" + std::to_string(number) + "]" : "." + std::string(key));
  }
  [[noreturn]] void fail(const std::string& what, const std::string& hint = "") const {
    fk::fail(text(), what, hint);
  }
};

class Reader {
 public:
  Reader(const Json& json, const Place& place, const Reading& how)
      : json_(json), place_(place), how_(how) {
    if (!json.is_object()) place.fail("is no object");
  }

  template <class T>
  void operator()(const char* key, T& value, const char* = "") {
    read_key(key, value, how_.complete);
  }
  template <class T>
  void optional(const char* key, T& value, bool, const char* = "") {
    // Earlier hosts wrote null for a list without entries.
    if constexpr (IsList<T>::value)
      if (const auto found = json_.find(key); found != json_.end() && found->is_null()) return;
    read_key(key, value, false);
  }

  template <class T>
  static void read(const Json& json, T& value, const Place& place, const Reading& how) {
    if constexpr (std::is_same_v<T, Json>) {
      value = json;
    } else if constexpr (std::is_same_v<T, double>) {
      if (!json.is_number() && !json.is_null()) place.fail("is no number");
      value = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) place.fail("is neither true nor false");
      value = json.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      if (!json.is_number_integer()) place.fail("is no whole number");
      const bool fits = json.is_number_unsigned() ? std::in_range<T>(json.get<uint64_t>())
                                                  : std::in_range<T>(json.get<int64_t>());
      if (!fits) place.fail("is too large a number");
      value = json.get<T>();
    } else if constexpr (std::is_same_v<T, std::string> ||
                         std::is_same_v<T, std::filesystem::path>) {
      if (!json.is_string()) place.fail("is no text");
      value = text_of(json.get_ref<const std::string&>(), how);
    } else if constexpr (Named<T>) {
      std::vector<std::string> known;
      for (const auto& [each, name] : json_names(value)) {
        if (json == name) {
          value = each;
          return;
        }
        known.push_back(name);
      }
      place.fail("is none of the names",
                 json.is_string() ? did_you_mean(json.get<std::string>(), known) : "");
    } else if constexpr (OwnForm<T>) {
      json_value(json, value);
    } else if constexpr (IsOptional<T>::value) {
      if (json.is_null()) return value.reset();
      read(json, value.emplace(), place, how);
    } else if constexpr (IsList<T>::value) {
      if (!json.is_array()) place.fail("is no list");
      value.clear();
      for (const auto& entry : json) {
        typename T::value_type one{};
        read(entry, one, {&place, {}, value.size() + 1}, how);
        value.push_back(std::move(one));
      }
    } else if constexpr (IsMap<T>::value) {
      if (!json.is_object()) place.fail("is no object");
      value.clear();
      for (const auto& [key, entry] : json.items()) {
        const std::string shown = printable(key);
        read(entry, value[text_of(key, how)], {&place, shown}, how);
      }
    } else {
      Reader inner(json, place, how);
      visit_all(inner, value);
    }
  }

 private:
  template <class T>
  void read_key(const char* key, T& value, bool needed) {
    const Place place{&place_, key};
    const auto found = json_.find(key);
    if (found != json_.end())
      read(*found, value, place, how_);
    else if (needed)
      place.fail("is missing");
  }
  static std::string text_of(const std::string& text, const Reading& how) {
    if (!how.foreign) return text;
    return printable(std::string_view(text).substr(0, how.text_bytes_max), how.kept);
  }

  const Json& json_;
  const Place& place_;
  const Reading& how_;
};

}  // namespace visitors

template <class T>
Json to_fields(const T& value) {
  return visitors::Writer::json(value);
}

/// Error with the place and the fault; the place begins with `name`.
template <class T>
void read_fields(const Json& json, T& value, std::string_view name, const Reading& how = {}) {
  visitors::Reader::read(json, value, {nullptr, name}, how);
}
template <class T>
T from_fields(const Json& json, std::string_view name, const Reading& how = kOwnMessage) {
  T out{};
  read_fields(json, out, name, how);
  return out;
}

/// A document of a verb: the fields behind its key `schema`, the name and version of its form.
template <class T>
Json to_document(const char* schema, const T& value) {
  Json out = {{"schema", schema}};
  out.update(to_fields(value));
  return out;
}
}  // namespace fk
