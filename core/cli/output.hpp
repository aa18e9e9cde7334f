// SPDX-License-Identifier: Apache-2.0
// Output of verbs: JSON to a file or to stdout.
#pragma once
#include <string>

#include "core/base/json.hpp"

namespace fk {

// Writes to `file`; stdout for an empty name or "-". Unsafe characters become `?` (printable() of
// base/text.hpp).
void print_json(const Json& document, const std::string& file);

}  // namespace fk
