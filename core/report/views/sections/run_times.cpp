// SPDX-License-Identifier: Apache-2.0
// Runs: times of rounds, latencies of tokens and throughput, before (the baseline) and after.
#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

struct RunFigure {
  const char* key;
  const char* title;
  Unit unit;
};
constexpr RunFigure kRunFigures[] = {
    {"round_s", "Time of a round: all requests of a workload", Unit::seconds},
    {"token_s", "Time between tokens: a step of the model", Unit::seconds},
    {"first_token_s", "Time until the first token of a request", Unit::seconds},
    {"decode_tokens_per_s", "Output tokens a second", Unit::number}};

void add_bar(const Json& before, const Json& after, const std::string& label, const char* key,
             std::vector<BarRow>& rows) {
  const Json &a = at_key(before, key), &b = at_key(after, key);
  if (!number_at(a, "median") && !number_at(b, "median")) return;
  rows.push_back({label, number_at(a, "median"), number_at(b, "median"), number_at(a, "p10"),
                  number_at(a, "p90"), number_at(b, "p10"), number_at(b, "p90")});
}

const Json& workload_of(const Json& side, const std::string& name) {
  for (const Json& one : list_at(side, "workloads"))
    if (text_at(one, "workload") == name) return one;
  return at_key(side, "");
}

void add_run_times(const Json& run, View& view) {
  const Json& baseline = at_key(run, "baseline");
  const auto& candidates = list_at(run, "candidates");
  ViewSection section{.title = "Times and latencies",
                      .note = "Medians; a thin line reaches from the 10th to the 90th percentile."};
  for (const RunFigure& figure : kRunFigures) {
    std::vector<BarRow> rows;
    for (const Json& one : list_at(baseline, "workloads")) {
      const std::string name = text_at(one, "workload");
      if (candidates.empty()) add_bar(one, Json(), name, figure.key, rows);
      for (const Json& side : candidates)
        add_bar(one, workload_of(side, name),
                candidates.size() > 1 ? name + ", " + text_at(side, "name") : name, figure.key,
                rows);
    }
    section.charts.push_back(
        bar_chart(figure.title, rows, figure.unit, "baseline",
                  candidates.size() == 1 ? text_at(candidates.front(), "name") : "candidate"));
  }
  ViewTable table{.name = "times",
                  .title = "Workloads of every side",
                  .columns = {{"side", "side"},
                              {"workload", "workload"},
                              {"kind", "kind"},
                              {"requests", "requests", Unit::number},
                              {"rounds", "rounds", Unit::number},
                              {"prompt tokens", "prompt_tokens", Unit::number},
                              {"output tokens", "output_tokens", Unit::number},
                              {"round", "round_s", Unit::seconds},
                              {"first token", "first_token_s", Unit::seconds},
                              {"first token, p90", "first_token_p90_s", Unit::seconds},
                              {"token", "token_s", Unit::seconds},
                              {"token, p90", "token_p90_s", Unit::seconds},
                              {"prefill tokens/s", "prefill_tokens_per_s", Unit::number},
                              {"decode tokens/s", "decode_tokens_per_s", Unit::number},
                              {"why", "why"}}};
  const auto add = [&](const Json& side) {
    for (const Json& w : list_at(side, "workloads")) {
      const auto figure = [&](const char* key, const char* which) {
        return number_at(at_key(w, key), which);
      };
      table.rows.push_back({text_at(side, "name"), text_at(w, "workload"), text_at(w, "kind"),
                            number_at(w, "requests"), number_at(w, "rounds"),
                            number_at(w, "prompt_tokens"), number_at(w, "output_tokens"),
                            figure("round_s", "median"), figure("first_token_s", "median"),
                            figure("first_token_s", "p90"), figure("token_s", "median"),
                            figure("token_s", "p90"), figure("prefill_tokens_per_s", "median"),
                            figure("decode_tokens_per_s", "median"), text_at(w, "why")});
    }
  };
  add(baseline);
  for (const Json& side : candidates) add(side);
  section.tables.push_back(std::move(table));
  view.sections.push_back(std::move(section));
}
FK_VIEW(run_times, "fk-host.run", 30, add_run_times);

}  // namespace
}  // namespace fk
