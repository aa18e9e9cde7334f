// SPDX-License-Identifier: Apache-2.0
// Evaluations, tier 2: the submission inside each model, with times before and after.
#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

void add_models(const Json& e, View& view) {
  ViewTable table{.name = "models",
                  .title = "Tier 2: the submission inside each model",
                  .columns = {{"scenario", "scenario"},
                              {"family", "family"},
                              {"mode", "mode"},
                              {"verdict", "verdict"},
                              {"signal", "signal", Unit::number},
                              {"workload", "workload"},
                              {"kind", "kind"},
                              {"x baseline (95 %)", "ratio", Unit::ratio},
                              {"round", "round_s", Unit::seconds},
                              {"baseline's", "baseline_round_s", Unit::seconds},
                              {"first token", "first_token_s", Unit::seconds},
                              {"baseline's", "baseline_first_token_s", Unit::seconds},
                              {"decode tokens/s", "decode_tokens_per_s", Unit::number},
                              {"baseline's", "baseline_decode_tokens_per_s", Unit::number},
                              {"speed", "speed"},
                              {"why", "why"}}};
  ViewTable heat{.name = "signals",
                 .title = "Worst error of each model as a multiple of what is allowed",
                 .columns = {{"scenario", "scenario"},
                             {"mode", "mode"},
                             {"error / allowed", "of_allowed", Unit::error},
                             {"best answer without work", "mutant_of_allowed", Unit::number}}};
  std::vector<IntervalRow> ratios;
  std::vector<BarRow> rounds, firsts;
  for (const Json& m : list_at(e, "models")) {
    const std::string scenario = text_at(m, "scenario"), verdict = text_at(m, "verdict");
    const std::vector<ViewCell> head = {scenario, text_at(m, "family"), text_at(m, "mode"),
                                        status_cell(verdict), number_at(m, "signal")};
    if (number_at(m, "of_allowed"))
      heat.rows.push_back({scenario, text_at(m, "mode"), number_at(m, "of_allowed"),
                           number_at(m, "mutant_of_allowed")});
    const auto& workloads = list_at(m, "workloads");
    if (workloads.empty()) {
      auto cells = head;
      cells.resize(15);
      cells.emplace_back(text_at(m, "why"));
      table.rows.push_back(std::move(cells));
    }
    for (const Json& w : workloads) {
      auto cells = head;
      const ViewCell ratio(number_at(w, "ratio"), number_at(w, "low"), number_at(w, "high"));
      const std::string speed = text_at(w, "verdict"), why = text_at(w, "why");
      for (const ViewCell& cell : std::vector<ViewCell>{
               text_at(w, "workload"), text_at(w, "kind"), ratio, number_at(w, "round_s"),
               number_at(w, "baseline_round_s"), number_at(w, "first_token_s"),
               number_at(w, "baseline_first_token_s"), number_at(w, "decode_tokens_per_s"),
               number_at(w, "baseline_decode_tokens_per_s"), status_cell(speed),
               why.empty() ? text_at(m, "why") : why})
        cells.push_back(cell);
      table.rows.push_back(std::move(cells));
      const std::string label = scenario + ", " + text_at(w, "workload");
      if (ratio.value)
        ratios.push_back({label, *ratio.value, ratio.low, ratio.high, tone_of_word(speed)});
      const auto add = [&](std::vector<BarRow>& to, const char* before, const char* after) {
        constexpr size_t kMost = 24;
        if (number_at(w, before) && to.size() < kMost)
          to.push_back({label, number_at(w, before), number_at(w, after)});
      };
      add(rounds, "baseline_round_s", "round_s");
      add(firsts, "baseline_first_token_s", "first_token_s");
    }
  }
  view.sections.push_back(
      {.title = "Models",
       .charts = {interval_chart("The baseline's time over the submission's", ratios),
                  bar_chart("Time of a round", rounds, Unit::seconds, "baseline", "submission"),
                  bar_chart("Time until the first token", firsts, Unit::seconds, "baseline",
                            "submission")},
       .tables = {heat, table}});
}
FK_VIEW(evaluation_models, "fk-host.evaluation", 20, add_models);

}  // namespace
}  // namespace fk
