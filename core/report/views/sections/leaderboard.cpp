// SPDX-License-Identifier: Apache-2.0
// Rankings of stored evaluations, one for each suite and device.
#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

std::vector<ViewTable::Column> ranking_columns() {
  return {{"rank", "rank", Unit::number},
          {"submission", "submission"},
          {"author", "author"},
          {"kind", "kind"},
          {"MacroEval (95 %)", "score", Unit::ratio},
          {"speed", "speed", Unit::ratio},
          {"correctness", "correctness", Unit::share},
          {"coverage", "coverage", Unit::share},
          {"fast_1", "fast_1", Unit::share},
          {"date", "date"},
          {"evaluation", "id"},
          {"signed by", "signed_by"},
          {"suite", "suite"},
          {"device", "device"}};
}

void add_leaderboard(const Json& document, View& view) {
  view.title = "Leaderboard";
  view.facts = {{"this host signs as", text_at(document, "signed_by")}};
  std::string last;
  std::vector<IntervalRow> scores;
  ViewSection section;
  const auto end_section = [&] {
    if (section.tables.empty()) return;
    section.charts.push_back(interval_chart("MacroEval; 1 is the baseline", scores));
    view.sections.push_back(std::move(section));
    section = {}, scores.clear();
  };
  for (const Json& row : list_at(document, "rows")) {
    const std::string suite = text_at(row, "suite"), device = text_at(row, "device");
    const std::string group = suite + "\n" + text_at(row, "suite_sha256") + "\n" + device;
    if (group != last) {
      end_section();
      section.title = "Suite " + suite + " on " + device;
      section.tables.push_back(
          {.name = "ranking", .title = section.title, .columns = ranking_columns()});
      last = group;
    }
    const Json &score = at_key(row, "score"), &components = at_key(row, "components");
    const ViewCell cell(number_at(score, "value"), number_at(score, "low"),
                        number_at(score, "high"));
    section.tables[0].rows.push_back(
        {number_at(row, "rank"), text_at(row, "submission"), text_at(row, "author"),
         text_at(row, "kind"), cell, number_at(components, "speed"),
         number_at(components, "correctness"), number_at(components, "coverage"),
         number_at(row, "fast_1"), text_at(row, "date"), text_at(row, "id"),
         text_at(row, "signed_by"), suite, device});
    if (cell.value)
      scores.push_back({text_at(row, "submission"), *cell.value, cell.low, cell.high});
  }
  end_section();
  ViewTable refused{.name = "refused",
                    .title = "Files that are no valid evaluation",
                    .columns = {{"file", "file"}, {"why", "why"}}};
  for (const Json& row : list_at(document, "refused"))
    refused.rows.push_back({text_at(row, "what"), text_at(row, "why")});
  view.sections.push_back({.title = "Not ranked", .tables = {refused}});
}
FK_VIEW(leaderboard, "fk-host.leaderboard", 0, add_leaderboard);

}  // namespace
}  // namespace fk
