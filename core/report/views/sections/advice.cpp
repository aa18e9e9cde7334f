// SPDX-License-Identifier: Apache-2.0
// Advice: where a model's time goes by op and place, and what a better kernel could gain.
#include <map>

#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

void add_advice(const Json& advice, View& view) {
  view.title = text_at(advice, "scenario");
  view.lead = "ops take " + shown({number_at(advice, "seconds")}, Unit::seconds) +
              " for every workload once";
  view.facts = {{"profile", text_at(advice, "profile")},
                {"dtype", text_at(advice, "dtype")},
                {"device", text_at(advice, "device")},
                {"not measured", texts_at(advice, "notes", "; ")}};
  std::map<std::string, StackRow> phases;
  for (const auto& [key, title] :
       {std::pair("ops", "By op"), std::pair("places", "By op, phase and place")}) {
    ViewTable table{.name = key,
                    .title = title,
                    .columns = {{"op", "op"},
                                {"phase", "phase"},
                                {"place", "place"},
                                {"provider", "provider"},
                                {"calls", "calls", Unit::number},
                                {"time", "seconds", Unit::seconds},
                                {"share", "share", Unit::share},
                                {"of limit", "of_limit", Unit::share},
                                {"limit", "limit"},
                                {"gain at limit", "gain", Unit::ratio},
                                {"gain at most", "most_gain", Unit::ratio},
                                {"faster provider", "best"},
                                {"its gain", "best_gain", Unit::ratio}}};
    for (const Json& row : list_at(advice, key)) {
      table.rows.push_back({text_at(row, "op"), text_at(row, "phase"), text_at(row, "place"),
                            text_at(row, "provider"), number_at(row, "calls"),
                            number_at(row, "seconds"), number_at(row, "share"),
                            number_at(row, "of_limit"), text_at(row, "limit"),
                            number_at(row, "gain"), number_at(row, "most_gain"),
                            text_at(row, "best"), number_at(row, "best_gain")});
      const std::string phase = text_at(row, "phase");
      if (const auto seconds = number_at(row, "seconds"); seconds && !phase.empty()) {
        phases[phase].label = phase;
        phases[phase].parts.push_back({text_at(row, "op"), *seconds});
      }
    }
    view.sections.push_back({.title = title, .tables = {std::move(table)}});
  }
  std::vector<StackRow> rows;
  for (auto& [phase, row] : phases) rows.push_back(std::move(row));
  view.sections.front().charts.push_back(
      stacked_chart("Time in ops by phase", rows, Unit::seconds));
}
FK_VIEW(advice, "fk-host.advice", 0, add_advice);

}  // namespace
}  // namespace fk
