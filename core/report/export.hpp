// SPDX-License-Identifier: Apache-2.0
// Rows of text for other programs: CSV (RFC 4180, with lines that end as on Unix) and Markdown.
#pragma once
#include <string>
#include <vector>

namespace fk {

using TextRow = std::vector<std::string>;

// The headings are the first line. Control characters become `?`, because texts may come from a
// plugin.
std::string csv_text(const TextRow& headings, const std::vector<TextRow>& rows);
std::string markdown_text(const TextRow& headings, const std::vector<TextRow>& rows);

}  // namespace fk
