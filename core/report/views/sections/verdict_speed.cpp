// SPDX-License-Identifier: Apache-2.0
// Verdicts: the speed of each case, with its interval, and its place under the device's limit.
#include "core/report/document_values.hpp"
#include "core/report/views/charts.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

const Json& first_timing(const Json& row) {
  const auto& timings = list_at(row, "timings");
  return timings.empty() ? at_key(row, "") : timings.front();
}

std::optional<double> positive(std::optional<double> value) {
  return value && *value > 0 ? value : std::nullopt;
}

std::string case_label(const Json& row) {
  std::string out = text_at(row, "op") + " " + text_at(row, "case");
  for (const char* key : {"variant", "routing"})
    if (const std::string more = text_at(row, key); !more.empty()) out += ", " + more;
  return out;
}

void add_verdict_speed(const Json& verdict, View& view) {
  ViewTable table{.name = "cases",
                  .title = "Cases",
                  .columns = {{"op", "op"},
                              {"case", "case"},
                              {"variant", "variant"},
                              {"size", "size"},
                              {"status", "status"},
                              {"x baseline (99 %)", "speedup", Unit::ratio},
                              {"time", "seconds", Unit::seconds},
                              {"baseline's", "baseline_seconds", Unit::seconds},
                              {"warm", "warm_seconds", Unit::seconds},
                              {"of roofline", "roofline", Unit::share},
                              {"baseline's", "baseline_roofline", Unit::share},
                              {"baseline", "baseline"},
                              {"why", "why"},
                              {"next", "next"}}};
  std::vector<IntervalRow> rows;
  std::vector<RooflinePoint> points;
  std::vector<BarRow> shares;
  for (const Json& row : list_at(verdict, "cases")) {
    const Json& timing = first_timing(row);
    const Json &own = at_key(timing, "candidate"), &other = at_key(timing, "baseline");
    const Json& ratio = at_key(timing, "ratio");
    const auto value = positive(number_at(ratio, "value"));
    const auto time = positive(number_at(at_key(own, "cold"), "median_s"));
    const auto other_time = positive(number_at(at_key(other, "cold"), "median_s"));
    const auto roof = positive(number_at(own, "roofline"));
    const auto other_roof = positive(number_at(other, "roofline"));
    const std::string status = text_at(row, "status"), label = case_label(row);
    const bool left_out = flag_at(row, "left_out");
    table.rows.push_back(
        {text_at(row, "op"), text_at(row, "case"), text_at(row, "variant"), text_at(row, "size"),
         left_out ? status_cell("left_out") : status_cell(status),
         value ? ViewCell(value, number_at(ratio, "low"), number_at(ratio, "high")) : ViewCell(),
         time, other_time, positive(number_at(own, "warm_s")), roof, other_roof,
         text_at(row, "baseline"), text_at(row, "why"), text_at(row, "next")});
    if (value)
      rows.push_back(
          {label, *value, number_at(ratio, "low"), number_at(ratio, "high"), tone_of_word(status)});
    const double flops = number_at(timing, "flops").value_or(0);
    const double bytes = number_at(timing, "bytes").value_or(0);
    if (time && roof) points.push_back({label, flops, bytes, *time, *roof, false});
    if (other_time && other_roof)
      points.push_back({label + ", baseline", flops, bytes, *other_time, *other_roof, true});
    if ((roof || other_roof) && shares.size() < 24) shares.push_back({label, other_roof, roof});
  }
  ViewSection section{.title = "Speed of cases"};
  section.charts = {
      interval_chart("The baseline's time over the candidate's", rows),
      bar_chart("Share of the device's limit", shares, Unit::share, "baseline", "candidate"),
      roofline_chart("Roofline", points)};
  section.tables = {table};
  view.sections.push_back(std::move(section));
}
FK_VIEW(verdict_speed, "fk-host.verdict", 20, add_verdict_speed);

}  // namespace
}  // namespace fk
