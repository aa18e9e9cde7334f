// SPDX-License-Identifier: Apache-2.0
// Rows of `check`, as JSON and as text.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/check/check.hpp"

namespace fk {

Json row_json(const CheckRow& row);

// A text field of a row; empty: absent.
std::string text_of(const Json& row, const char* key);

// Prints one line per op without faults, and each bad row in full.
void print_rows(const std::vector<Json>& rows, bool verbose);

}  // namespace fk
