// SPDX-License-Identifier: Apache-2.0
#include "core/report/views/exports.hpp"

#include <cctype>
#include <set>

#include "core/base/text.hpp"
#include "core/report/export.hpp"

namespace fk {

namespace {

std::string decimal_text(const std::optional<double>& value) {
  if (!value) return "";
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", *value);
  return text;
}

std::string csv_of_table(const ViewTable& table) {
  TextRow headings;
  for (const auto& column : table.columns) {
    headings.push_back(column.key);
    if (column.unit != Unit::ratio) continue;
    headings.push_back(column.key + "_low");
    headings.push_back(column.key + "_high");
  }
  std::vector<TextRow> rows;
  for (const auto& row : table.rows) {
    TextRow& cells = rows.emplace_back();
    for (size_t i = 0; i < table.columns.size(); ++i) {
      const ViewCell cell = i < row.size() ? row[i] : ViewCell();
      const Unit unit = table.columns[i].unit;
      cells.push_back(unit == Unit::text || !cell.value ? cell.text : decimal_text(cell.value));
      if (unit != Unit::ratio) continue;
      cells.push_back(decimal_text(cell.low));
      cells.push_back(decimal_text(cell.high));
    }
  }
  return csv_text(headings, rows);
}

// Letters of a file's name, from a name that may be a stranger's.
std::string file_part(const std::string& name) {
  std::string out;
  for (const char c : name.substr(0, 80))
    out += std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
                   (c == '.' && !out.empty())
               ? c
               : '_';
  return out.empty() ? "view" : out;
}

void add_csv(const View& view, const std::string& prefix, std::set<std::string>& taken,
             std::vector<std::pair<std::string, std::string>>& out) {
  for (const auto& section : view.sections)
    for (const auto& table : section.tables) {
      if (table.rows.empty()) continue;
      std::string name = prefix + table.name;
      for (int i = 2; !taken.insert(name).second; ++i)
        name = prefix + table.name + "." + std::to_string(i);
      out.emplace_back(name + ".csv", csv_of_table(table));
    }
  for (const View& inner : view.inner)
    add_csv(inner, prefix + file_part(inner.name.empty() ? inner.title : inner.name) + ".", taken,
            out);
}

void add_markdown(const View& view, const std::string& marks, std::string& out) {
  out += (out.empty() ? "" : "\n") + marks + " " + printable(view.title) + "\n\n";
  if (!view.lead.empty()) out += printable(view.lead) + "\n";
  for (const auto& section : view.sections)
    for (const auto& table : section.tables) {
      if (table.rows.empty()) continue;
      TextRow headings;
      std::vector<TextRow> rows;
      for (const auto& column : table.columns) headings.push_back(column.heading);
      for (const auto& row : table.rows) {
        TextRow& cells = rows.emplace_back();
        for (size_t i = 0; i < table.columns.size(); ++i)
          cells.push_back(i < row.size() ? shown(row[i], table.columns[i].unit) : "");
      }
      out += "\n" + marks + "# " + table.title + "\n\n" + markdown_text(headings, rows);
    }
  for (const View& inner : view.inner) add_markdown(inner, marks + "#", out);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> csv_files(const View& view) {
  std::vector<std::pair<std::string, std::string>> out;
  std::set<std::string> taken;
  add_csv(view, "", taken, out);
  return out;
}

std::string markdown_of(const View& view) {
  std::string out;
  add_markdown(view, "#", out);
  return out;
}

}  // namespace fk
