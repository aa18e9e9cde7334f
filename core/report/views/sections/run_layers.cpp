// SPDX-License-Identifier: Apache-2.0
// Runs with a trace: a step's time by op, before (the baseline) and after.
#include <map>

#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

void add_run_layers(const Json& run, View& view) {
  ViewTable table{.name = "step_ops",
                  .title = "A step's time by op",
                  .columns = {{"side", "side"},
                              {"phase", "phase"},
                              {"op", "op"},
                              {"provider", "provider"},
                              {"steps", "steps", Unit::number},
                              {"calls", "calls", Unit::number},
                              {"time of a step", "step_s", Unit::seconds},
                              {"time of a call", "call_s", Unit::seconds}}};
  std::map<std::string, std::vector<StackRow>> phases;
  for (const Json& row : list_at(run, "traced")) {
    const auto steps = number_at(row, "steps"), calls = number_at(row, "calls");
    const auto seconds = number_at(row, "seconds");
    if (!seconds || !steps || !calls || !(*steps > 0) || !(*calls > 0)) continue;
    const std::string side = text_at(row, "side"), phase = text_at(row, "phase");
    table.rows.push_back({side, phase, text_at(row, "op"), text_at(row, "provider"), steps, calls,
                          std::optional(*seconds / *steps), std::optional(*seconds / *calls)});
    auto& sides = phases[phase];
    if (sides.empty() || sides.back().label != side) sides.push_back({side, {}});
    sides.back().parts.push_back({text_at(row, "op"), *seconds / *steps});
  }
  ViewSection section{.title = "A step before and after",
                      .note =
                          "Ops one after the other, without graphs, as each side's own process "
                          "reports them: they explain a verdict and are no part of it."};
  for (const auto& [phase, sides] : phases)
    section.charts.push_back(
        stacked_chart("A mean step of the phase " + phase, sides, Unit::seconds));
  section.tables.push_back(std::move(table));
  view.sections.push_back(std::move(section));
}
FK_VIEW(run_layers, "fk-host.run", 35, add_run_layers);

}  // namespace
}  // namespace fk
