// SPDX-License-Identifier: Apache-2.0
// Reads of a document's JSON for views. A document may be old, or a stranger's file, so a missing
// key or another type is no error: it reads as nothing.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.hpp"

namespace fk {

// Null for a missing key, and where `json` is no object.
const Json& at_key(const Json& json, std::string_view key);
// The elements of a list; nothing for another value.
const Json::array_t& list_at(const Json& json, std::string_view key);
std::string text_at(const Json& json, std::string_view key);
// Only finite numbers.
std::optional<double> number_at(const Json& json, std::string_view key);
bool flag_at(const Json& json, std::string_view key);
// The texts of a list, joined.
std::string texts_at(const Json& json, std::string_view key, std::string_view between = ", ");
// "fk-host.run" of the form "fk-host.run/2"; empty: it is no document.
std::string kind_of_document(const Json& json);

}  // namespace fk
