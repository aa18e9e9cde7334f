// SPDX-License-Identifier: Apache-2.0
// Races of the providers of ops.
#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

void add_bench_op(const Json& bench, View& view) {
  std::vector<std::string> ops;
  ViewTable table{.name = "providers",
                  .title = "Providers",
                  .columns = {{"op", "op"},
                              {"case", "case"},
                              {"axes", "axes"},
                              {"provider", "provider"},
                              {"cold", "cold_s", Unit::seconds},
                              {"first quartile", "cold_low_s", Unit::seconds},
                              {"third quartile", "cold_high_s", Unit::seconds},
                              {"warm", "warm_s", Unit::seconds},
                              {"samples", "samples", Unit::number},
                              {"of copy", "of_copy", Unit::share},
                              {"of roofline", "roofline", Unit::share},
                              {"x first (99 %)", "speedup", Unit::ratio},
                              {"answer", "verdict"},
                              {"why", "why"}}};
  std::vector<IntervalRow> ratios;
  std::vector<RooflinePoint> points;
  std::vector<BarRow> times;
  for (const Json& row : list_at(bench, "rows")) {
    const auto positive = [&](const char* key) {
      const auto value = number_at(row, key);
      return value && *value > 0 ? value : std::nullopt;
    };
    const std::string op = text_at(row, "op"), verdict = text_at(row, "verdict");
    const std::string label =
        op + " " + text_at(row, "case") + ", " + text_at(row, "provider") +
        (text_at(row, "routing").empty() ? "" : ", " + text_at(row, "routing"));
    if (ops.empty() || ops.back() != op) ops.push_back(op);
    const auto ratio = positive("speedup"), cold = positive("cold_s"), roof = positive("roofline");
    const std::string why = text_at(row, "why");
    table.rows.push_back(
        {op, text_at(row, "case"), text_at(row, "axes"), text_at(row, "provider"), cold,
         positive("cold_low_s"), positive("cold_high_s"), positive("warm_s"), positive("samples"),
         positive("of_copy"), roof,
         ViewCell(ratio, number_at(row, "speedup_low"), number_at(row, "speedup_high")),
         status_cell(verdict), ViewCell(why.empty() ? text_at(row, "note") : why, Tone::weak)});
    if (ratio)
      ratios.push_back({label, *ratio, number_at(row, "speedup_low"),
                        number_at(row, "speedup_high"), tone_of_word(verdict)});
    if (cold && times.size() < 40)
      times.push_back({label, cold, {}, positive("cold_low_s"), positive("cold_high_s"), {}, {}});
    if (cold && roof)
      points.push_back({label, number_at(row, "flops").value_or(0),
                        number_at(row, "bytes").value_or(0), *cold, *roof, false});
  }
  view.title = ops.size() == 1 ? ops[0] : std::to_string(ops.size()) + " ops";
  view.facts = {{"device", text_at(bench, "device")},
                {"cases", text_at(bench, "size")},
                {"recorded from", text_at(bench, "captured")}};
  view.sections.push_back(
      {.title = "Providers",
       .charts = {interval_chart("Speed beside the first provider", ratios),
                  bar_chart("Time of a call with cold caches", times, Unit::seconds, "time", ""),
                  roofline_chart("Roofline", points)},
       .tables = {table}});
}
FK_VIEW(bench_op, "fk-host.bench", 0, add_bench_op);

}  // namespace
}  // namespace fk
