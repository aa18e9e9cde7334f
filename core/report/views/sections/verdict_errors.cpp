// SPDX-License-Identifier: Apache-2.0
// Verdicts: errors by case and kind of inputs as a heat map, patterns of wrong answers, and the
// known wrong answers that tested the comparison.
#include <algorithm>

#include "core/report/document_values.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

void add_verdict_errors(const Json& verdict, View& view) {
  std::vector<std::string> families;
  for (const Json& row : list_at(verdict, "cases"))
    for (const Json& family : list_at(row, "families"))
      if (const std::string name = text_at(family, "family");
          std::ranges::find(families, name) == families.end())
        families.push_back(name);
  ViewTable heat{.name = "errors",
                 .title = "Largest error by kind of inputs, as a share of what is allowed",
                 .columns = {{"op", "op"}, {"case", "case"}}};
  for (const auto& name : families) heat.columns.push_back({name, name, Unit::error});
  ViewTable patterns{.name = "patterns",
                     .title = "Patterns of wrong answers",
                     .columns = {{"op", "op"},
                                 {"case", "case"},
                                 {"output", "output"},
                                 {"kind", "pattern_name"},
                                 {"pattern", "pattern"},
                                 {"wrong", "wrong", Unit::number},
                                 {"compared", "compared", Unit::number},
                                 {"error / allowed", "worst", Unit::error},
                                 {"got", "got", Unit::number},
                                 {"want", "want", Unit::number}}};
  ViewTable mutants{.name = "mutants",
                    .title = "Known wrong answers, which the comparison must reject",
                    .columns = {{"op", "op"},
                                {"case", "case"},
                                {"wrong answer", "name"},
                                {"rejected", "rejected"},
                                {"error / allowed", "worst", Unit::number}}};
  for (const Json& row : list_at(verdict, "cases")) {
    const std::string op = text_at(row, "op"), name = text_at(row, "case");
    std::vector<ViewCell> cells(families.size());
    bool any = false;
    for (const Json& family : list_at(row, "families")) {
      const auto at = std::ranges::find(families, text_at(family, "family")) - families.begin();
      const auto worst = number_at(family, "worst");
      const std::string status = text_at(family, "status");
      ViewCell& cell = cells[static_cast<size_t>(at)];
      cell = worst ? ViewCell(worst, tone_of_word(status) == Tone::bad ? Tone::bad : Tone::plain)
                   : status_cell(status);
      any = true;
    }
    if (any) {
      auto& added = heat.rows.emplace_back(std::vector<ViewCell>{op, name});
      added.insert(added.end(), cells.begin(), cells.end());
    }
    const Json& errors = at_key(row, "errors");
    if (!text_at(errors, "pattern").empty() || !text_at(errors, "name").empty())
      patterns.rows.push_back({op, name, text_at(errors, "field"), text_at(errors, "name"),
                               text_at(errors, "pattern"), number_at(errors, "wrong"),
                               number_at(errors, "compared"), number_at(errors, "worst"),
                               number_at(errors, "got"), number_at(errors, "want")});
    for (const Json& mutant : list_at(row, "nulls")) {
      const bool rejected = flag_at(mutant, "rejected");
      const std::string why = text_at(mutant, "why");
      mutants.rows.push_back({op, name, text_at(mutant, "name"),
                              !why.empty() ? ViewCell(why, Tone::weak)
                              : rejected   ? ViewCell("yes")
                                           : ViewCell("no", Tone::bad),
                              number_at(mutant, "worst")});
    }
  }
  view.sections.push_back({.title = "Errors",
                           .note = "Below 1 is right. Values are compared with the oracle's.",
                           .tables = {heat, patterns, mutants}});
}
FK_VIEW(verdict_errors, "fk-host.verdict", 40, add_verdict_errors);

}  // namespace
}  // namespace fk
