// SPDX-License-Identifier: Apache-2.0
// Runs: the speed of each candidate beside the baseline, with its interval.
#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

void add_run_speed(const Json& run, View& view) {
  ViewTable table{.name = "speedups",
                  .title = "Speed of whole models",
                  .columns = {{"candidate", "candidate"},
                              {"workload", "workload"},
                              {"kind", "kind"},
                              {"x baseline (95 %)", "speedup", Unit::ratio},
                              {"answer", "verdict"},
                              {"pairs of rounds", "pairs", Unit::number},
                              {"same tokens", "same_tokens", Unit::share},
                              {"why", "why"}}};
  std::vector<IntervalRow> rows;
  for (const Json& side : list_at(run, "candidates"))
    for (const Json& workload : list_at(side, "workloads")) {
      const Json& speedup = at_key(workload, "speedup");
      const ViewCell ratio(number_at(speedup, "ratio"), number_at(speedup, "low"),
                           number_at(speedup, "high"));
      const std::string verdict = text_at(workload, "verdict");
      table.rows.push_back({text_at(side, "name"), text_at(workload, "workload"),
                            text_at(workload, "kind"), ratio, status_cell(verdict),
                            number_at(speedup, "pairs"), number_at(workload, "same_tokens"),
                            text_at(workload, "why")});
      if (ratio.value)
        rows.push_back({text_at(side, "name") + ", " + text_at(workload, "workload"), *ratio.value,
                        ratio.low, ratio.high, tone_of_word(verdict)});
    }
  ViewSection section{.title = "Speed"};
  if (!flag_at(run, "speed_judged"))
    section.note = "Speed is not judged in this profile; the ratios say nothing of real sizes.";
  section.charts.push_back(interval_chart("The baseline's time over the candidate's", rows));
  section.tables.push_back(table);
  view.sections.push_back(std::move(section));
}
FK_VIEW(run_speed, "fk-host.run", 20, add_run_speed);

}  // namespace
}  // namespace fk
