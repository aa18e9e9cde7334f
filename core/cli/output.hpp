// SPDX-License-Identifier: Apache-2.0
// What verbs have in common: JSON to a file or to the standard output.
#pragma once
#include <string>

#include "core/base/json.hpp"

namespace fk {

// An empty file name or "-" is the standard output. Invalid UTF-8 from plugins is replaced.
void print_json(const Json& document, const std::string& file);

}  // namespace fk
