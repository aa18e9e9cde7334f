// SPDX-License-Identifier: Apache-2.0
#include "core/report/table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <numeric>

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

constexpr int64_t kWidthMin = 40;   // a narrower terminal wraps by itself
constexpr int64_t kColumnMin = 18;  // to which a column of text may shrink

// Bytes at the begin of `text` that take at most `columns` columns; at least one character.
size_t bytes_within(std::string_view text, int64_t columns) {
  size_t at = 0;
  int64_t used = 0;
  while (at < text.size()) {
    size_t next = at;
    if (text[at] == '\033') {
      next = std::min(text.find('m', at), text.size() - 1) + 1;
    } else {
      if (used == std::max<int64_t>(columns, 1)) break;
      ++used;
      do ++next;
      while (next < text.size() && (static_cast<unsigned char>(text[next]) & 0xC0) == 0x80);
    }
    at = next;
  }
  return at;
}

// Columns of the longest word.
int64_t word_width(std::string_view text) {
  int64_t most = 0;
  for (const auto& word : split(text, ' ')) most = std::max(most, display_width(word));
  return most;
}

// The text in lines of at most `first`, then `rest` columns. A word that is longer breaks behind
// one of the characters `_/,`, where it can.
std::vector<std::string> wrapped(std::string_view text, int64_t first, int64_t rest) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t most = bytes_within(text, out.empty() ? first : rest);
    size_t end = most;
    if (most < text.size() && text[most] != ' ') {
      const size_t blank = text.rfind(' ', most);
      const size_t part = text.find_last_of("_/,", most - 1);
      if (blank != text.npos && blank > 0)
        end = blank;
      else if (part != text.npos && part > 0)
        end = part + 1;
    }
    std::string_view line = text.substr(0, end);
    line.remove_suffix(line.size() - (line.find_last_not_of(' ') + 1));
    out.emplace_back(line);
    text.remove_prefix(end);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  }
  if (out.empty()) out.emplace_back();
  return out;
}

}  // namespace

bool colour_wanted(std::FILE* stream) {
  if (!environment("NO_COLOR").empty()) return false;
  if (const std::string force = environment("CLICOLOR_FORCE"); !force.empty() && force != "0")
    return true;
  // The stream may lack a descriptor of its own (cli/terminal.cpp).
  return isatty(stream == stderr ? STDERR_FILENO : STDOUT_FILENO) != 0;
}

void want_colour(const std::string& when) {
  if (when == "auto") return;
  const bool never = when == "never";
  ::unsetenv(never ? "CLICOLOR_FORCE" : "NO_COLOR");
  ::setenv(never ? "NO_COLOR" : "CLICOLOR_FORCE", "1", /*overwrite=*/1);
}

std::string styled(std::string_view text, Style style, bool colour) {
  if (!colour || style == Style::plain || text.empty()) return std::string(text);
  return escape(style) + std::string(text) + "\033[0m";
}

int64_t display_width(std::string_view text) {
  int64_t width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      i = std::min(text.find('m', i), text.size());
      continue;
    }
    width += (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
  }
  return width;
}

int64_t report_width() {
  const std::string said = environment("COLUMNS");
  int64_t width = 0;
  const auto [end, code] = std::from_chars(said.data(), said.data() + said.size(), width);
  if (code != std::errc{} || end != said.data() + said.size() || width <= 0) width = 0;
  winsize size{};
  if (width == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  return width == 0 ? 0 : std::max(width, kWidthMin);
}

std::string fitted(std::string_view text, int64_t width) {
  if (width <= 0) return std::string(text);
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (display_width(line) <= width) {
      out += line;
    } else {
      const size_t blanks = std::min(line.find_first_not_of(' '), line.size());
      const auto deep = std::min(static_cast<int64_t>(blanks) + 2, width / 2);
      const std::string indent(static_cast<size_t>(deep), ' ');
      const auto parts =
          wrapped(line.substr(blanks), width - static_cast<int64_t>(blanks), width - deep);
      for (size_t i = 0; i < parts.size(); ++i)
        out += (i ? "\n" + indent : std::string(line.substr(0, blanks))) + parts[i];
    }
    if (end < text.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

void Table::row(std::vector<Cell> cells) {
  FK_CHECK(cells.size() <= columns_.size(), "a table row has more cells than columns");
  while (cells.size() < columns_.size()) cells.emplace_back("");
  for (auto& cell : cells) cell.text = printable(std::move(cell.text));
  rows_.push_back(std::move(cells));
}

std::vector<int64_t> Table::natural_widths() const {
  std::vector<int64_t> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    int64_t width = display_width(columns_[i].heading);
    for (const auto& row : rows_) width = std::max(width, display_width(row[i].text));
    widths.push_back(width);
  }
  return widths;
}

// Takes columns off the widest column of text until all fit in `room`; false if they cannot. Words
// break only if it fits in no other way.
bool Table::shrink(std::vector<int64_t>& widths, int64_t room) const {
  std::vector<int64_t> least, whole;
  for (size_t i = 0; i < columns_.size(); ++i) {
    least.push_back(std::max(kColumnMin, display_width(columns_[i].heading)));
    whole.push_back(least[i]);
    for (const auto& row : rows_) whole[i] = std::max(whole[i], word_width(row[i].text));
  }
  int64_t over = std::accumulate(widths.begin(), widths.end(), int64_t{0}) - room;
  for (const auto& limits : {whole, least}) {
    for (; over > 0; --over) {
      size_t widest = columns_.size();
      for (size_t i = 0; i < columns_.size(); ++i)
        if (columns_[i].align == Align::left && widths[i] > limits[i] &&
            (widest == columns_.size() || widths[i] > widths[widest]))
          widest = i;
      if (widest == columns_.size()) break;
      --widths[widest];
    }
  }
  return over <= 0;
}

// One row, on as many lines as its longest cell needs.
std::string Table::lines(const Row& row, const std::vector<int64_t>& widths, bool colour,
                         int indent) const {
  std::vector<std::vector<std::string>> cells;
  size_t count = 1;
  for (size_t i = 0; i < row.size(); ++i) {
    cells.push_back(columns_[i].align == Align::left && display_width(row[i].text) > widths[i]
                        ? wrapped(row[i].text, widths[i], widths[i])
                        : std::vector<std::string>{row[i].text});
    count = std::max(count, cells.back().size());
  }
  std::string out;
  for (size_t n = 0; n < count; ++n) {
    const auto part = [&](size_t i) { return n < cells[i].size() ? cells[i][n] : std::string(); };
    std::string line(static_cast<size_t>(indent), ' ');
    size_t used = row.size();
    while (used > 0 && part(used - 1).empty()) --used;
    for (size_t i = 0; i < used; ++i) {
      if (i) line += "  ";
      // The last cell of a line has no padding, so lines have no blanks at their end.
      const bool last = i + 1 == used && columns_[i].align == Align::left;
      append(line, Cell(part(i), row[i].style), last ? 0 : widths[i], columns_[i].align, colour);
    }
    out += line + '\n';
  }
  return out;
}

// Each row as its first cell, and a line for each further cell that has a text.
std::string Table::list(bool colour, int indent, int64_t width) const {
  int64_t names = 0;
  for (const auto& column : columns_) names = std::max(names, display_width(column.heading));
  std::string out;
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) {
      if (row[i].text.empty()) continue;
      const int64_t before = indent + (i ? 2 + names + 2 : 0);
      std::string name = i ? "  " + columns_[i].heading : "";
      name.resize(name.size() + static_cast<size_t>(before - indent - display_width(name)), ' ');
      const auto parts = wrapped(row[i].text, width - before, width - before);
      for (size_t n = 0; n < parts.size(); ++n) {
        const std::string head =
            n ? std::string(static_cast<size_t>(before), ' ')
              : std::string(static_cast<size_t>(indent), ' ') + styled(name, Style::weak, colour);
        const Style style = i || row[i].style != Style::plain ? row[i].style : Style::strong;
        out += head + styled(parts[n], style, colour) + '\n';
      }
    }
  }
  return out;
}

std::string Table::text(bool colour, int indent) const {
  std::vector<int64_t> widths = natural_widths();
  const int64_t width = report_width();
  const int64_t between = indent + 2 * (static_cast<int64_t>(columns_.size()) - 1);
  if (width > 0 && !shrink(widths, width - between)) return list(colour, indent, width);
  std::string out;
  Row headings;
  bool any = false;
  for (const auto& column : columns_) {
    headings.emplace_back(column.heading, Style::strong);
    any = any || !column.heading.empty();
  }
  if (any) out += lines(headings, widths, colour, indent);
  for (const auto& row : rows_) out += lines(row, widths, colour, indent);
  return out;
}

}  // namespace fk
