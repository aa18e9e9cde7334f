// SPDX-License-Identifier: Apache-2.0
// Tables: columns line up whatever the characters, and hostile text cannot move the cursor.
#include "core/report/table.hpp"

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

TEST_CASE("table_for_other_programs_has_headings_and_no_styles") {
  Table table({{"op"}, {"why", Align::right}});
  table.row({Cell("rms_norm", Style::bad), "a, \"b\" | c"});
  CHECK(table.csv() == "op,why\r\nrms_norm,\"a, \"\"b\"\" | c\"\r\n");
  CHECK_THAT(table.markdown(), ContainsSubstring("| rms\\_norm | a, \"b\" \\| c |"));
}
