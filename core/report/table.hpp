// SPDX-License-Identifier: Apache-2.0
// Aligned tables for people. Every verb prints through this, so that all reports look alike.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

enum class Align : uint8_t { left, right };
enum class Style : uint8_t { plain, good, bad, weak, strong };

// Whether `stream` is a terminal that wants colour (NO_COLOR is respected).
bool colour_wanted(std::FILE* stream);
// `text` in a style; unchanged without colour.
std::string styled(std::string_view text, Style style, bool colour);
// Columns that UTF-8 text takes on a terminal, counted as one per code point.
int64_t display_width(std::string_view text);

struct Cell {
  std::string text;
  Style style = Style::plain;
  Cell(std::string t, Style s = Style::plain) : text(std::move(t)), style(s) {}  // NOLINT: implicit
  Cell(const char* t) : text(t) {}                                               // NOLINT: implicit
};

class Table {
 public:
  struct Column {
    std::string heading;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // Missing cells are empty; more cells than columns is a mistake of the caller (FK_CHECK). Control
  // characters become `?`: text may come from a plugin.
  void row(std::vector<Cell> cells);
  bool empty() const { return rows_.empty(); }
  // The table with headings, each line with `indent` spaces before it and no blanks at its end.
  std::string text(bool colour, int indent = 2) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace fk
