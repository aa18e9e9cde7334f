// SPDX-License-Identifier: Apache-2.0
// What verbs have in common: JSON to a file or to the standard output.
#pragma once
#include <string>

#include "core/base/json.hpp"

namespace fk {

// An empty file name or "-" is the standard output. What is not safe to show
// (printable() of base/text.hpp) is `?` in it.
void print_json(const Json& document, const std::string& file);

}  // namespace fk
