// SPDX-License-Identifier: Apache-2.0
// Rows of `check`, as messages and for people.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/check/check.hpp"

namespace fk {

Json row_json(const CheckRow& row);

// A field of a row; empty where it has none.
std::string text_of(const Json& row, const char* key);

// One line per op where all is well, every bad row in full.
void print_rows(const std::vector<Json>& rows, bool verbose);

}  // namespace fk
