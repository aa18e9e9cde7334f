// SPDX-License-Identifier: Apache-2.0
// Verdicts on candidates: the answer with its reason, and what was judged where.
#include "core/base/text.hpp"
#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

ViewCell ratio_cell(const Json& ratio) {
  const auto value = number_at(ratio, "value");
  if (!value || !(*value > 0)) return {};
  return {value, number_at(ratio, "low"), number_at(ratio, "high")};
}

void add_verdict_head(const Json& verdict, View& view) {
  const Json &candidate = at_key(verdict, "candidate"), &aggregate = at_key(verdict, "aggregate");
  const std::string status = text_at(verdict, "status"), why = text_at(verdict, "why");
  const ViewCell ratio = ratio_cell(at_key(aggregate, "ratio"));
  view.title = text_at(candidate, "name");
  view.lead = status +
              (ratio.value ? ", " + shown(ratio, Unit::ratio) + " times the baseline" : "") +
              (why.empty() ? "" : ": " + why);
  view.tone = tone_of_word(status);
  std::vector<std::string> baselines;
  for (const Json& one : list_at(verdict, "baselines")) baselines.push_back(text_at(one, "name"));
  const auto count = [&](const char* key) {
    return shown({number_at(aggregate, key)}, Unit::number);
  };
  view.facts = {
      {"next", text_at(verdict, "next")},
      {"evidence", text_at(verdict, "evidence")},
      {"cases, right, refused, failed",
       count("cases") + ", " + count("right") + ", " + count("refused") + ", " + count("failed")},
      {"faster, same, slower, cannot tell", count("faster") + ", " + count("same") + ", " +
                                                count("slower") + ", " + count("cannot_tell")},
      {"baselines", join(baselines, ", ")},
      {"device", text_at(verdict, "device")},
      {"machine", text_at(verdict, "host")},
      {"driver", text_at(verdict, "driver")},
      {"begin", text_at(verdict, "time")},
      {"took", shown({number_at(verdict, "seconds")}, Unit::seconds)},
      {"receipt", text_at(verdict, "receipt")},
      {"file", text_at(candidate, "path")},
      {"SHA-256", text_at(candidate, "sha256")},
      {"stale", text_at(verdict, "stale")}};
}
FK_VIEW(verdict_head, "fk-host.verdict", 0, add_verdict_head);

// Several candidates.
void add_verdicts_head(const Json& document, View& view) {
  const auto& verdicts = list_at(document, "verdicts");
  view.title = std::to_string(verdicts.size()) + (verdicts.size() == 1 ? " verdict" : " verdicts");
  ViewTable table{.name = "verdicts",
                  .title = "Candidates",
                  .columns = {{"candidate", "candidate"},
                              {"status", "status"},
                              {"x baseline (99 %)", "speedup", Unit::ratio},
                              {"cases", "cases", Unit::number},
                              {"right", "right", Unit::number},
                              {"receipt", "receipt"},
                              {"why", "why"}}};
  std::vector<IntervalRow> rows;
  for (const Json& v : verdicts) {
    const Json& aggregate = at_key(v, "aggregate");
    const std::string name = text_at(at_key(v, "candidate"), "name"), status = text_at(v, "status");
    const ViewCell ratio = ratio_cell(at_key(aggregate, "ratio"));
    table.rows.push_back({name, status_cell(status), ratio, number_at(aggregate, "cases"),
                          number_at(aggregate, "right"), text_at(v, "receipt"), text_at(v, "why")});
    if (ratio.value)
      rows.push_back({name, *ratio.value, ratio.low, ratio.high, tone_of_word(status)});
  }
  for (const Json& error : list_at(document, "errors"))
    table.rows.push_back({text_at(error, "candidate"),
                          status_cell("error"),
                          {},
                          {},
                          {},
                          "",
                          text_at(error, "where") + ": " + text_at(error, "what")});
  view.sections.push_back({.title = "Overview",
                           .charts = {interval_chart("Speed beside the baseline", rows)},
                           .tables = {table}});
}
FK_VIEW(verdicts_head, "fk-host.verdicts", 0, add_verdicts_head);

}  // namespace
}  // namespace fk
