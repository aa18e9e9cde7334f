// SPDX-License-Identifier: Apache-2.0
// Two plugins against each other; two submissions beside each other.
#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

void add_compare(const Json& d, View& view) {
  const std::string first = text_at(d, "first"), second = text_at(d, "second");
  const ViewCell all(number_at(d, "speedup"), number_at(d, "speedup_low"),
                     number_at(d, "speedup_high"));
  view.title = first + " against " + second;
  view.lead = all.value ? text_at(d, "verdict") + ": " + first + " is " + shown(all, Unit::ratio) +
                              " times as fast as " + second
                        : "not compared";
  view.tone = tone_of_word(text_at(d, "verdict"));
  view.facts = {{"device", text_at(d, "device")}};
  ViewTable table{.name = "cases",
                  .title = "Cases",
                  .columns = {{"op", "op"},
                              {"case", "case"},
                              {"variant", "variant"},
                              {"first", "first"},
                              {"its time", "first_s", Unit::seconds},
                              {"second", "second"},
                              {"its time", "second_s", Unit::seconds},
                              {"speed of the first (99 %)", "speedup", Unit::ratio},
                              {"answer", "verdict"}}};
  std::vector<IntervalRow> ratios;
  std::vector<BarRow> times;
  for (const Json& c : list_at(d, "cases")) {
    const ViewCell ratio(number_at(c, "speedup"), number_at(c, "speedup_low"),
                         number_at(c, "speedup_high"));
    const std::string verdict = text_at(c, "verdict");
    const std::string label = text_at(c, "op") + " " + text_at(c, "case");
    table.rows.push_back({text_at(c, "op"), text_at(c, "case"), text_at(c, "variant"),
                          status_cell(text_at(c, "first")), number_at(c, "first_s"),
                          status_cell(text_at(c, "second")), number_at(c, "second_s"), ratio,
                          status_cell(verdict)});
    if (ratio.value)
      ratios.push_back({label, *ratio.value, ratio.low, ratio.high, tone_of_word(verdict)});
    if (number_at(c, "first_s"))
      times.push_back({label, number_at(c, "second_s"), number_at(c, "first_s")});
  }
  view.sections.push_back(
      {.title = "Race",
       .charts = {interval_chart("The second plugin's time over the first one's", ratios),
                  bar_chart("Time of a call", times, Unit::seconds, second, first)},
       .tables = {table}});
}
FK_VIEW(compare, "fk-host.compare", 0, add_compare);

void add_comparison(const Json& c, View& view) {
  const std::string a = text_at(c, "a"), b = text_at(c, "b");
  view.title = b + " beside " + a;
  view.facts = {{"suite", text_at(c, "suite")},
                {"device", text_at(c, "device")},
                {"evaluations", text_at(c, "a_id") + ", " + text_at(c, "b_id")},
                {"less comparable, because", texts_at(c, "notes", "; ")}};
  for (const auto& [key, title] : {std::pair("score", "Score"), std::pair("families", "Families"),
                                   std::pair("models", "Models"), std::pair("cases", "Ops")}) {
    ViewTable table{.name = key,
                    .title = title,
                    .columns = {{"", "what"},
                                {a, "a_status"},
                                {a, "a", Unit::number},
                                {b, "b_status"},
                                {b, "b", Unit::number},
                                {"gain (95 %)", "gain", Unit::ratio},
                                {"answer", "answer"}}};
    std::vector<IntervalRow> gains;
    for (const Json& row : list_at(c, key)) {
      const ViewCell gain(number_at(row, "gain"), number_at(row, "low"), number_at(row, "high"));
      const std::string answer = text_at(row, "answer");
      table.rows.push_back({text_at(row, "what"), status_cell(text_at(row, "a_status")),
                            number_at(row, "a"), status_cell(text_at(row, "b_status")),
                            number_at(row, "b"), gain, status_cell(answer)});
      if (gain.value)
        gains.push_back(
            {text_at(row, "what"), *gain.value, gain.low, gain.high, tone_of_word(answer)});
    }
    view.sections.push_back({.title = title,
                             .charts = {interval_chart("Gain of " + b + " over " + a, gains)},
                             .tables = {table}});
  }
}
FK_VIEW(comparison, "fk-host.comparison", 0, add_comparison);

}  // namespace
}  // namespace fk
