// SPDX-License-Identifier: Apache-2.0
// Aligned tables for people. All verbs use them, so that all reports look alike.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "core/report/export.hpp"

namespace fk {

enum class Align : uint8_t { left, right };
enum class Style : uint8_t { plain, good, bad, weak, strong };

// True when `stream` is a terminal and NO_COLOR is unset.
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
  // Missing cells are empty. More cells than columns break an invariant (FK_CHECK). Control
  // characters become `?`, because text may come from a plugin.
  void row(std::vector<Cell> cells);
  bool empty() const { return rows_.empty(); }
  // The table with headings. Each line begins with `indent` spaces and has no blanks at its end.
  std::string text(bool colour, int indent = 2) const;
  // For other programs (export.hpp), with headings, without styles.
  std::string csv() const;
  std::string markdown() const;

 private:
  std::string exported(std::string (*format)(const TextRow&, const std::vector<TextRow>&)) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace fk
