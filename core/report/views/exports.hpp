// SPDX-License-Identifier: Apache-2.0
// The tables of a view for other programs: CSV and Markdown (core/report/export.hpp).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/report/views/view.hpp"

namespace fk {

// Pairs of a file's name and its text, one for each table: NAME.csv, and with several views inside
// a document VIEW.NAME.csv. Names differ.
std::vector<std::pair<std::string, std::string>> csv_files(const View& view);
std::string markdown_of(const View& view);

}  // namespace fk
