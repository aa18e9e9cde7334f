// SPDX-License-Identifier: Apache-2.0
// Aligned tables for people. All verbs use them, so that all reports look alike.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace fk {

enum class Align : uint8_t { left, right };
enum class Style : uint8_t { plain, good, bad, weak, strong };

// True when `stream` is a terminal, or CLICOLOR_FORCE is set; never with NO_COLOR.
bool colour_wanted(std::FILE* stream);
// `when`: auto, always or never. Sets these variables, also for processes of this one.
void want_colour(const std::string& when);
// `text` in a style; unchanged without colour.
std::string styled(std::string_view text, Style style, bool colour);
// Columns that UTF-8 text takes on a terminal, counted as one per code point. Styles take none.
int64_t display_width(std::string_view text);

// Columns for a report: COLUMNS if it is set, else those of the terminal behind stdout. 0: no
// limit, for pipes and files.
int64_t report_width();
// The text with lines of at most `width` columns (0: no limit). A line breaks at a blank, or within
// a word that is longer than a line. Further lines are indented by two more than their first.
std::string fitted(std::string_view text, int64_t width);

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
  // It fits report_width(): columns of text wrap; a table that stays too wide becomes a list of
  // "heading value" for each row. No text is lost.
  std::string text(bool colour, int indent = 2) const;

 private:
  using Row = std::vector<Cell>;
  std::vector<int64_t> natural_widths() const;
  bool shrink(std::vector<int64_t>& widths, int64_t room) const;
  std::string lines(const Row& row, const std::vector<int64_t>& widths, bool colour,
                    int indent) const;
  std::string list(bool colour, int indent, int64_t width) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace fk
