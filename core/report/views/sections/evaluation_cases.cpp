// SPDX-License-Identifier: Apache-2.0
// Evaluations, tier 1: ops, with means by op and level; and the parts that were not run.
#include <cmath>
#include <map>

#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

struct OpSum {
  int cases = 0, judged = 0, right = 0, timed = 0;
  double logs = 0, roof = 0;
  int roofs = 0;
};

std::vector<ViewTable> means_of_levels(const Json& e) {
  ViewTable levels{.name = "levels",
                   .title = "Means by level of the ops, over right cases",
                   .columns = {{"level", "level"},
                               {"cases", "cases", Unit::number},
                               {"right", "right", Unit::number},
                               {"timed", "timed", Unit::number},
                               {"x baseline", "ratio", Unit::ratio},
                               {"of roofline", "roofline", Unit::share},
                               {"baseline's", "baseline_roofline", Unit::share}}};
  for (const Json& l : list_at(e, "levels")) {
    const auto level = number_at(l, "level");
    levels.rows.push_back({level && *level > 0 ? "L" + shown({level}, Unit::number) : "all",
                           number_at(l, "cases"), number_at(l, "right"), number_at(l, "timed"),
                           number_at(l, "ratio"), number_at(l, "roofline"),
                           number_at(l, "baseline_roofline")});
  }
  ViewTable fast{.name = "fast_p",
                 .title = "Share of cases that are right and more than p times as fast",
                 .columns = {{"p", "p", Unit::number}, {"fast_p", "share", Unit::share}}};
  for (const Json& f : list_at(e, "fast_p"))
    fast.rows.push_back({number_at(f, "p"), number_at(f, "share")});
  return {std::move(levels), std::move(fast)};
}

void add_cases(const Json& e, View& view) {
  ViewTable table{.name = "cases",
                  .title = "Tier 1: cases of ops",
                  .columns = {{"plugin", "plugin"},
                              {"op", "op"},
                              {"level", "level", Unit::number},
                              {"case", "case"},
                              {"variant", "variant"},
                              {"inputs", "inputs"},
                              {"status", "status"},
                              {"x baseline (99 %)", "ratio", Unit::ratio},
                              {"of roofline", "roofline", Unit::share},
                              {"baseline's", "baseline_roofline", Unit::share},
                              {"baseline", "baseline"},
                              {"receipt", "receipt"},
                              {"why", "why"}}};
  std::map<std::pair<std::string, std::string>, OpSum> sums;  // by plugin and op
  for (const Json& c : list_at(e, "cases")) {
    const std::string plugin = text_at(c, "plugin"), op = text_at(c, "op");
    const auto ratio = number_at(c, "ratio"), roof = number_at(c, "roofline");
    table.rows.push_back({plugin, op, number_at(c, "level"), text_at(c, "case"),
                          text_at(c, "variant"), text_at(c, "inputs"),
                          status_cell(text_at(c, "status")),
                          ViewCell(ratio, number_at(c, "low"), number_at(c, "high")), roof,
                          number_at(c, "baseline_roofline"), text_at(c, "baseline"),
                          text_at(c, "receipt"), text_at(c, "why")});
    OpSum& sum = sums[{plugin, op}];
    const bool right = flag_at(c, "right");
    ++sum.cases, sum.judged += flag_at(c, "judged"), sum.right += right;
    if (right && ratio && *ratio > 0) ++sum.timed, sum.logs += std::log(*ratio);
    if (right && roof && *roof > 0) ++sum.roofs, sum.roof += std::log(*roof);
  }
  ViewTable ops{.name = "ops",
                .title = "Ops: geometric means over right cases",
                .columns = {{"plugin", "plugin"},
                            {"op", "op"},
                            {"cases", "cases", Unit::number},
                            {"judged", "judged", Unit::number},
                            {"right", "right", Unit::number},
                            {"x baseline", "ratio", Unit::ratio},
                            {"of roofline", "roofline", Unit::share}}};
  std::vector<IntervalRow> ratios;
  for (const auto& [key, sum] : sums) {
    const auto mean = [](double logs, int count) {
      return count ? std::optional(std::exp(logs / count)) : std::nullopt;
    };
    const auto ratio = mean(sum.logs, sum.timed);
    ops.rows.push_back({key.first, key.second, std::optional<double>(sum.cases),
                        std::optional<double>(sum.judged), std::optional<double>(sum.right), ratio,
                        mean(sum.roof, sum.roofs)});
    if (ratio)
      ratios.push_back({key.second + ", " + key.first,
                        *ratio,
                        {},
                        {},
                        *ratio > 1.01   ? Tone::good
                        : *ratio < 0.99 ? Tone::bad
                                        : Tone::plain});
  }
  ViewSection section{.title = "Ops",
                      .charts = {interval_chart("Geometric mean of each op", ratios)},
                      .tables = means_of_levels(e)};
  section.tables.insert(section.tables.begin(), std::move(ops));
  section.tables.push_back(std::move(table));
  view.sections.push_back(std::move(section));
}
FK_VIEW(evaluation_cases, "fk-host.evaluation", 30, add_cases);

void add_not_run(const Json& e, View& view) {
  ViewSection section{.title = "Not run"};
  for (const auto& [key, title] : {std::pair("missing", "Jobs without a result"),
                                   std::pair("left_out", "Left out on this device")}) {
    ViewTable table{.name = key, .title = title, .columns = {{"what", "what"}, {"why", "why"}}};
    for (const Json& row : list_at(e, key))
      table.rows.push_back({text_at(row, "what"), text_at(row, "why")});
    section.tables.push_back(std::move(table));
  }
  view.sections.push_back(std::move(section));
}
FK_VIEW(evaluation_not_run, "fk-host.evaluation", 40, add_not_run);

}  // namespace
}  // namespace fk
