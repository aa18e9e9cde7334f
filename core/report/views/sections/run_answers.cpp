// SPDX-License-Identifier: Apache-2.0
// Runs: how far the answers of each side are from the reference's, and which are wrong.
#include "core/report/document_values.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

std::optional<double> of_limit(const Json& errors, const char* error, const char* limit) {
  const auto value = number_at(errors, error), most = number_at(errors, limit);
  return value && most && *most > 0 ? std::optional(*value / *most) : std::nullopt;
}

void add_run_answers(const Json& run, View& view) {
  ViewTable heat{.name = "errors",
                 .title = "Errors as multiples of what is allowed",
                 .columns = {{"side", "side"},
                             {"rms", "rms_of_allowed", Unit::error},
                             {"worst 1 %", "worst1_of_allowed", Unit::error},
                             {"best 5 %", "best5_of_allowed", Unit::error},
                             {"best answer without work", "mutant_of_allowed", Unit::number}}};
  ViewTable table{.name = "answers",
                  .title = "Answers of every side",
                  .columns = {{"side", "side"},
                              {"verdict", "verdict"},
                              {"rms", "rms_of_spread", Unit::number},
                              {"allowed", "rms_limit", Unit::number},
                              {"worst 1 %", "worst1_of_spread", Unit::number},
                              {"allowed", "worst1_limit", Unit::number},
                              {"positions", "positions", Unit::number},
                              {"values", "values", Unit::number},
                              {"pattern", "pattern"},
                              {"why", "why"}}};
  const auto add = [&](const Json& side) {
    const Json& c = at_key(side, "correctness");
    const std::string why = text_at(side, "why").empty() ? text_at(c, "why") : text_at(side, "why");
    table.rows.push_back({text_at(side, "name"), status_cell(text_at(side, "verdict")),
                          number_at(c, "rms_of_spread"), number_at(c, "rms_limit"),
                          number_at(c, "worst1_of_spread"), number_at(c, "worst1_limit"),
                          number_at(c, "positions"), number_at(c, "values"), text_at(c, "pattern"),
                          why});
    if (c.is_object())
      heat.rows.push_back({text_at(side, "name"), of_limit(c, "rms_of_spread", "rms_limit"),
                           of_limit(c, "worst1_of_spread", "worst1_limit"),
                           of_limit(c, "best5_of_spread", "best5_limit"),
                           number_at(c, "mutant_of_allowed")});
  };
  if (at_key(run, "baseline").is_object()) add(at_key(run, "baseline"));
  for (const Json& side : list_at(run, "candidates")) add(side);
  view.sections.push_back({.title = "Correctness",
                           .note = "Against the reference in float32, as shares of the spread of "
                                   "the right values. A multiple of at most 1 is right.",
                           .tables = {heat, table}});
}
FK_VIEW(run_answers, "fk-host.run", 40, add_run_answers);

}  // namespace
}  // namespace fk
