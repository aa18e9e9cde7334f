// SPDX-License-Identifier: Apache-2.0
// Evaluations of submissions: the score, its components, and families.
#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

ViewCell interval_cell(const Json& interval) {
  return {number_at(interval, "value"), number_at(interval, "low"), number_at(interval, "high")};
}

std::string lead_of_evaluation(const Json& e) {
  if (!flag_at(e, "complete"))
    return "no score: " + std::to_string(list_at(e, "missing").size()) + " jobs have no result";
  const Json& components = at_key(e, "components");
  return "MacroEval " + shown(interval_cell(at_key(e, "score")), Unit::ratio) + ": speed " +
         shown(interval_cell(at_key(e, "speed")), Unit::ratio) + ", correctness " +
         shown({number_at(components, "correctness")}, Unit::ratio) + ", coverage " +
         shown({number_at(components, "coverage")}, Unit::ratio);
}

void add_evaluation_head(const Json& e, View& view) {
  view.title = text_at(e, "submission") + ", suite " + text_at(e, "suite");
  view.name = text_at(e, "submission");
  view.lead = lead_of_evaluation(e);
  view.tone = flag_at(e, "complete") ? Tone::plain : Tone::bad;
  std::string plugins;
  for (const Json& plugin : list_at(e, "plugins"))
    plugins +=
        (plugins.empty() ? "" : "; ") + text_at(plugin, "name") + ": " + texts_at(plugin, "ops");
  view.facts = {
      {"author", text_at(e, "author")},
      {"kind", text_at(e, "kind")},
      {"budget", text_at(e, "budget")},
      {"commit", text_at(e, "commit")},
      {"note", text_at(e, "note")},
      {"plugins", plugins},
      {"device", text_at(e, "device")},
      {"machine", text_at(e, "host")},
      {"driver", text_at(e, "driver")},
      {"end", text_at(e, "date")},
      {"jobs took", shown({number_at(e, "seconds")}, Unit::seconds)},
      {"speed",
       flag_at(e, "speed_judged") ? "" : "the profile has no speed: every ratio counts as 1"},
      {"evaluation", text_at(e, "id")},
      {"signed by", text_at(e, "signed_by")},
      {"not signed", text_at(e, "unsigned")}};
}
FK_VIEW(evaluation_head, "fk-host.evaluation", 0, add_evaluation_head);

void add_families(const Json& e, View& view) {
  ViewTable table{.name = "families",
                  .title = "Tier 3: MacroEval by family",
                  .columns = {{"family", "family"},
                              {"architectures", "architectures", Unit::number},
                              {"covered", "covered", Unit::number},
                              {"speed", "speed", Unit::ratio},
                              {"correctness", "correctness", Unit::share},
                              {"coverage", "coverage", Unit::share}}};
  std::vector<IntervalRow> speeds;
  std::vector<BarRow> shares;
  const Json& speed = at_key(e, "speed");
  if (const auto value = number_at(speed, "value"); value && flag_at(e, "complete"))
    speeds.push_back({"all families", *value, number_at(speed, "low"), number_at(speed, "high")});
  for (const Json& f : list_at(e, "families")) {
    const std::string name = text_at(f, "family");
    table.rows.push_back({name, number_at(f, "architectures"), number_at(f, "covered"),
                          number_at(f, "speed"), number_at(f, "correctness"),
                          number_at(f, "coverage")});
    if (const auto value = number_at(f, "speed")) speeds.push_back({name, *value});
    shares.push_back({name, number_at(f, "correctness"), number_at(f, "coverage")});
  }
  view.sections.push_back({.title = "Families",
                           .charts = {interval_chart("Speed beside the baseline", speeds),
                                      bar_chart("Correctness and coverage", shares, Unit::share,
                                                "correctness", "coverage")},
                           .tables = {table}});
}
FK_VIEW(evaluation_families, "fk-host.evaluation", 10, add_families);

// Several submissions.
void add_eval_head(const Json& document, View& view) {
  const auto& all = list_at(document, "evaluations");
  view.title = all.empty() ? "Evaluations" : "Suite " + text_at(all.front(), "suite");
  if (all.size() == 1) return;
  ViewTable table{.name = "scores",
                  .title = "Submissions",
                  .columns = {{"submission", "submission"},
                              {"author", "author"},
                              {"kind", "kind"},
                              {"MacroEval (95 %)", "score", Unit::ratio},
                              {"speed (95 %)", "speed", Unit::ratio},
                              {"correctness", "correctness", Unit::share},
                              {"coverage", "coverage", Unit::share}}};
  std::vector<IntervalRow> rows;
  for (const Json& e : all) {
    const Json& components = at_key(e, "components");
    const ViewCell score = interval_cell(at_key(e, "score"));
    table.rows.push_back({text_at(e, "submission"), text_at(e, "author"), text_at(e, "kind"), score,
                          interval_cell(at_key(e, "speed")), number_at(components, "correctness"),
                          number_at(components, "coverage")});
    if (score.value)
      rows.push_back({text_at(e, "submission"), *score.value, score.low, score.high});
  }
  view.sections.push_back(
      {.title = "Overview", .charts = {interval_chart("MacroEval", rows)}, .tables = {table}});
}
FK_VIEW(eval_head, "fk-host.eval", 0, add_eval_head);

}  // namespace
}  // namespace fk
