// SPDX-License-Identifier: Apache-2.0
// Checks of plugins: the answer, errors by case and variant as a heat map, and every row.
#include <algorithm>
#include <map>

#include "core/report/document_values.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

void add_check_head(const Json& check, View& view) {
  const bool passed = flag_at(check, "passed");
  view.title = text_at(check, "plugin");
  std::map<std::string, int> counts;
  for (const Json& row : list_at(check, "rows")) ++counts[text_at(row, "status")];
  std::string rows;
  for (const auto& [status, count] : counts)
    rows += (rows.empty() ? "" : ", ") + std::to_string(count) + " " + status;
  view.lead = passed ? "passed" : "not passed";
  view.tone = passed ? Tone::good : Tone::bad;
  const Json& judged = at_key(check, "judged");
  view.facts = {
      {"rows", rows},
      {"from outside", text_at(judged, "status") + (text_at(judged, "why").empty() ? "" : ": ") +
                           text_at(judged, "why")},
      {"no reference for", texts_at(check, "unjudged")},
      {"cases", text_at(check, "size")},
      {"recorded from", text_at(check, "captured")},
      {"device", text_at(check, "device")},
      {"seed", shown({number_at(check, "seed")}, Unit::number)},
      {"file", text_at(check, "file")},
      {"stale", text_at(check, "stale")}};
}
FK_VIEW(check_head, "fk-host.check", 0, add_check_head);

void add_check_rows(const Json& check, View& view) {
  std::vector<std::string> variants;
  std::map<std::pair<std::string, std::string>, std::map<std::string, ViewCell>> cells;
  ViewTable table{.name = "rows",
                  .title = "Rows",
                  .columns = {{"op", "op"},
                              {"case", "case"},
                              {"variant", "variant"},
                              {"status", "status"},
                              {"rule", "rule"},
                              {"error / allowed", "worst", Unit::error},
                              {"text", "text"}}};
  for (const Json& row : list_at(check, "rows")) {
    const std::string op = text_at(row, "op"), name = text_at(row, "case");
    const std::string variant = text_at(row, "variant"), status = text_at(row, "status");
    const auto worst = number_at(row, "worst");
    table.rows.push_back({op, name, variant, status_cell(status), text_at(row, "rule"), worst,
                          text_at(row, "text")});
    if (name.empty()) continue;
    if (std::ranges::find(variants, variant) == variants.end()) variants.push_back(variant);
    const bool compared = status == "ok" || status == "wrong" || status == "untestable";
    cells[{op, name}][variant] = compared && worst ? ViewCell(worst) : status_cell(status);
  }
  ViewTable heat{.name = "errors",
                 .title = "Largest error by case and variant, as a share of what is allowed",
                 .columns = {{"op", "op"}, {"case", "case"}}};
  for (const auto& variant : variants)
    heat.columns.push_back({variant.empty() ? "as written" : variant,
                            variant.empty() ? "as_written" : variant, Unit::error});
  for (auto& [key, row] : cells) {
    auto& added = heat.rows.emplace_back(std::vector<ViewCell>{key.first, key.second});
    for (const auto& variant : variants) added.push_back(row[variant]);
  }
  view.sections.push_back({.title = "Cases", .note = "Below 1 is right.", .tables = {heat, table}});
}
FK_VIEW(check_rows, "fk-host.check", 20, add_check_rows);

}  // namespace
}  // namespace fk
