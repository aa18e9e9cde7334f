// SPDX-License-Identifier: Apache-2.0
#include "core/report/export.hpp"

#include "core/base/text.hpp"

namespace fk {

namespace {

std::string csv_cell(const std::string& text) {
  const std::string safe = printable(text);
  if (safe.find_first_of(",\"") == std::string::npos) return safe;
  std::string out = "\"";
  for (const char c : safe) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string markdown_cell(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    // Names have no markup of their own.
    if (std::string_view("\\|`*_<>[]").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string joined(const TextRow& cells, std::string (*cell)(const std::string&),
                   const char* between) {
  TextRow out;
  for (const auto& text : cells) out.push_back(cell(text));
  return join(out, between);
}

}  // namespace

std::string csv_text(const TextRow& headings, const std::vector<TextRow>& rows) {
  std::string out = joined(headings, csv_cell, ",") + "\n";
  for (const auto& row : rows) out += joined(row, csv_cell, ",") + "\n";
  return out;
}

std::string markdown_text(const TextRow& headings, const std::vector<TextRow>& rows) {
  std::string out = "| " + joined(headings, markdown_cell, " | ") + " |\n|";
  for (size_t i = 0; i < headings.size(); ++i) out += "---|";
  out += "\n";
  for (const auto& row : rows) out += "| " + joined(row, markdown_cell, " | ") + " |\n";
  return out;
}

}  // namespace fk
