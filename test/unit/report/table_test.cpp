// SPDX-License-Identifier: Apache-2.0
// Tables: columns line up whatever the characters, and hostile text cannot move the cursor.
#include "core/report/table.hpp"
#include "core/report/export.hpp"

#include <cstdlib>

#include "test/catch.hpp"

using namespace fk;

TEST_CASE("table_columns_line_up") {
  Table table({{"op"}, {"time", Align::right}, {"why"}});
  table.row({"rms_norm", "12.1 µs", "ok"});
  table.row({"linear", "3 µs"});
  CHECK(table.text(false) ==
        "  op           time  why\n"
        "  rms_norm  12.1 µs  ok\n"
        "  linear       3 µs\n");
}

TEST_CASE("table_colour_does_not_move_columns") {
  Table table({{"a"}, {"b"}});
  table.row({Cell("x", Style::bad), "1"});
  CHECK(table.text(true, 0) == "\033[1ma\033[0m  \033[1mb\033[0m\n\033[31mx\033[0m  1\n");
  CHECK(table.text(false, 0) == "a  b\nx  1\n");
}

TEST_CASE("table_control_characters_are_replaced") {
  Table table({{"text"}});
  table.row({"a\033[2Jb\n"});
  CHECK(table.text(false, 0) == "text\na?[2Jb?\n");
}

TEST_CASE("text_for_other_programs_is_quoted") {
  const std::vector<TextRow> rows = {{"rms_norm", "a, \"b\" | c"}};
  CHECK(csv_text({"op", "why"}, rows) == "op,why\nrms_norm,\"a, \"\"b\"\" | c\"\n");
  CHECK_THAT(markdown_text({"op", "why"}, rows),
             ContainsSubstring("| rms\\_norm | a, \"b\" \\| c |"));
}

namespace {

// COLUMNS with a value, until the end of a test.
struct TableColumns {
  explicit TableColumns(const char* value) { ::setenv("COLUMNS", value, 1); }
  ~TableColumns() { ::unsetenv("COLUMNS"); }
};

}  // namespace

TEST_CASE("table_wraps_columns_of_text_and_loses_nothing") {
  Table table({{"op"}, {"time", Align::right}, {"why"}});
  table.row({"rms_norm", "12 us", "the quick brown fox jumps over the lazy dog"});
  const TableColumns columns("45");
  CHECK(table.text(false) ==
        "  op         time  why\n"
        "  rms_norm  12 us  the quick brown fox jumps\n"
        "                   over the lazy dog\n");
}

// A name that is broken cannot be copied. So other columns give way first.
TEST_CASE("table_breaks_names_last_and_at_their_parts") {
  Table table({{"op"}, {"what it computes"}});
  table.row({"bidirectional_attention", "attention of a sequence over itself"});
  {
    const TableColumns columns("50");
    CHECK(table.text(false) ==
          "  op                       what it computes\n"
          "  bidirectional_attention  attention of a sequence\n"
          "                           over itself\n");
  }
  const TableColumns columns("42");
  CHECK(table.text(false) ==
        "  op                    what it computes\n"
        "  bidirectional_        attention of a\n"
        "  attention             sequence over\n"
        "                        itself\n");
}

TEST_CASE("table_that_stays_too_wide_becomes_a_list") {
  Table table(
      {{"op"}, {"a long heading", Align::right}, {"another heading", Align::right}, {"why"}});
  table.row({"rms_norm", "1", "", "because of a reason that is longer than a line"});
  const TableColumns columns("40");
  CHECK(table.text(false) ==
        "  rms_norm\n"
        "    a long heading   1\n"
        "    why              because of a reason\n"
        "                     that is longer than\n"
        "                     a line\n");
}

TEST_CASE("table_lines_of_prose_break_at_blanks_and_within_long_words") {
  CHECK(fitted("  one two three four\nfive\n", 12) == "  one two\n    three\n    four\nfive\n");
  CHECK(fitted("abcdefghijkl", 5) == "abcde\n  fgh\n  ijk\n  l");
  CHECK(fitted("\033[1mab\033[0m cd", 5) == "\033[1mab\033[0m cd");  // styles take no column
  CHECK(fitted("a line of any length", 0) == "a line of any length");
}

TEST_CASE("table_width_is_what_columns_says_if_it_is_a_number") {
  {
    const TableColumns columns("100");
    CHECK(report_width() == 100);
  }
  {
    const TableColumns columns("3");
    CHECK(report_width() == 40);
  }
}
