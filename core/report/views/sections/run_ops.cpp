// SPDX-License-Identifier: Apache-2.0
// Runs: who computes which op, and where the run's own time went.
#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

void add_run_ops(const Json& run, View& view) {
  ViewTable table{.name = "ops",
                  .title = "Providers of ops",
                  .columns = {{"side", "side"},
                              {"phase", "phase"},
                              {"op", "op"},
                              {"level", "level", Unit::number},
                              {"provider", "provider"},
                              {"nodes", "nodes", Unit::number},
                              {"refusal of the first", "refusal"}}};
  const auto add = [&](const Json& side) {
    for (const Json& op : list_at(side, "ops"))
      table.rows.push_back({text_at(side, "name"), text_at(op, "phase"), text_at(op, "op"),
                            number_at(op, "level"), text_at(op, "provider"), number_at(op, "nodes"),
                            ViewCell(text_at(op, "refusal"), Tone::weak)});
  };
  add(at_key(run, "baseline"));
  for (const Json& side : list_at(run, "candidates")) add(side);
  view.sections.push_back({.title = "Ops", .tables = {table}});

  ViewTable spent{.name = "spent",
                  .title = "Time of the run's own steps",
                  .columns = {{"step", "step"}, {"time", "seconds", Unit::seconds}}};
  for (const auto& [step, seconds] : at_key(run, "spent").items())
    if (seconds.is_number()) spent.rows.push_back({step, number_at(at_key(run, "spent"), step)});
  view.sections.push_back({.title = "Where the run's time went", .tables = {spent}});
}
FK_VIEW(run_ops, "fk-host.run", 50, add_run_ops);

}  // namespace
}  // namespace fk
