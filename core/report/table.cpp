// SPDX-License-Identifier: Apache-2.0
#include "core/report/table.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

const char* escape(Style style) {
  switch (style) {
    case Style::good:
      return "\033[32m";
    case Style::bad:
      return "\033[31m";
    case Style::weak:
      return "\033[2m";
    case Style::strong:
      return "\033[1m";
    case Style::plain:
      break;
  }
  return "";
}

void append(std::string& line, const Cell& cell, int64_t width, Align align, bool colour) {
  const auto pad = static_cast<size_t>(std::max<int64_t>(0, width - display_width(cell.text)));
  if (align == Align::right) line.append(pad, ' ');
  line += styled(cell.text, cell.style, colour);
  if (align == Align::left) line.append(pad, ' ');
}

}  // namespace

bool colour_wanted(std::FILE* stream) {
  const char* off = std::getenv("NO_COLOR");
  // The stream may lack a descriptor of its own (cli/terminal.cpp).
  const int fd = stream == stderr ? STDERR_FILENO : STDOUT_FILENO;
  return isatty(fd) != 0 && !(off && *off);
}

std::string styled(std::string_view text, Style style, bool colour) {
  if (!colour || style == Style::plain || text.empty()) return std::string(text);
  return escape(style) + std::string(text) + "\033[0m";
}

int64_t display_width(std::string_view text) {
  int64_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

void Table::row(std::vector<Cell> cells) {
  FK_CHECK(cells.size() <= columns_.size(), "a table row has more cells than columns");
  while (cells.size() < columns_.size()) cells.emplace_back("");
  for (auto& cell : cells) cell.text = printable(std::move(cell.text));
  rows_.push_back(std::move(cells));
}

std::string Table::exported(std::string (*format)(const TextRow&,
                                                  const std::vector<TextRow>&)) const {
  TextRow headings;
  for (const auto& column : columns_) headings.push_back(column.heading);
  std::vector<TextRow> rows;
  for (const auto& row : rows_) {
    TextRow& texts = rows.emplace_back();
    for (const auto& cell : row) texts.push_back(cell.text);
  }
  return format(headings, rows);
}

std::string Table::csv() const { return exported(csv_text); }
std::string Table::markdown() const { return exported(markdown_text); }

std::string Table::text(bool colour, int indent) const {
  std::vector<int64_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    int64_t width = display_width(columns_[i].heading);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i].text));
    widths.push_back(width);
  }
  std::string out;
  const auto add_line = [&](const std::vector<Cell>& cells) {
    std::string line(static_cast<size_t>(indent), ' ');
    size_t used = cells.size();
    while (used > 0 && cells[used - 1].text.empty()) --used;
    for (size_t i = 0; i < used; ++i) {
      if (i) line += "  ";
      // The last cell of a line has no padding, so lines have no blanks at their end.
      const bool last = i + 1 == used && columns_[i].align == Align::left;
      append(line, cells[i], last ? 0 : widths[i], columns_[i].align, colour);
    }
    out += line + '\n';
  };
  std::vector<Cell> headings;
  bool any = false;
  for (const auto& column : columns_) {
    headings.emplace_back(column.heading, Style::strong);
    any = any || !column.heading.empty();
  }
  if (any) add_line(headings);
  for (const auto& row : rows_) add_line(row);
  return out;
}

}  // namespace fk
