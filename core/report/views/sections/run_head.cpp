// SPDX-License-Identifier: Apache-2.0
// Runs of scenarios: the answer, and what ran where.
#include "core/base/text.hpp"
#include "core/report/document_values.hpp"
#include "core/report/views/view.hpp"

namespace fk {
namespace {

std::string whole_number(const Json& run, const char* key) {
  const auto value = number_at(run, key);
  return value ? std::to_string(static_cast<int64_t>(*value)) : "";
}

// One line for each candidate; without candidates the baseline's.
void answer_of_run(const Json& run, View& view) {
  const auto& candidates = list_at(run, "candidates");
  std::string lead = text_at(run, "error");
  bool good = lead.empty();
  for (const Json& side : candidates) {
    const std::string verdict = text_at(side, "verdict"), why = text_at(side, "why");
    lead += (lead.empty() ? "" : "; ") + excerpt(text_at(side, "name"), 80) + ": " + verdict +
            (why.empty() ? "" : ", " + excerpt(why, 200));
    good &= verdict == "correct" || verdict == "unused";
  }
  if (lead.empty())
    lead = "no candidate: the baseline alone, " + text_at(at_key(run, "baseline"), "verdict");
  view.lead = lead;
  view.tone = good ? Tone::good : Tone::bad;
}

void add_run_head(const Json& run, View& view) {
  view.title = text_at(run, "scenario");
  answer_of_run(run, view);
  std::string ranks = whole_number(run, "tp");
  if (const auto ep = number_at(run, "ep"); ep && *ep > 1)
    ranks += ", ep " + whole_number(run, "ep");
  const auto bytes = number_at(run, "weights_bytes");
  view.facts = {{"scenario", text_at(run, "summary")},
                {"model", text_at(run, "arch") + ", " + whole_number(run, "layers") + " layers, " +
                              text_at(run, "dtype")},
                {"profile", text_at(run, "profile")},
                {"device", text_at(run, "device")},
                {"machine", text_at(run, "host")},
                {"driver", text_at(run, "driver")},
                {"weights", bytes ? human_bytes(static_cast<int64_t>(*bytes)) : ""},
                {"ranks (tp)", ranks},
                {"processes of each side", whole_number(run, "processes")},
                {"begin", text_at(run, "date")},
                {"took", shown({number_at(run, "seconds")}, Unit::seconds)},
                {"seed of weights, of requests",
                 whole_number(run, "seed") + ", " + whole_number(run, "requests_seed")},
                {"note", text_at(run, "note")},
                {"fits the device by", text_at(run, "room")},
                {"weights are", texts_at(run, "weights_notes", "; ")},
                {"build of fk-host", text_at(run, "host_build")}};
}
FK_VIEW(run_head, "fk-host.run", 0, add_run_head);

// A list of scenarios.
void add_runs_head(const Json& runs, View& view) {
  const auto& reports = list_at(runs, "reports");
  view.title = std::to_string(reports.size()) + " scenarios";
  ViewTable table{.name = "scenarios",
                  .title = "Scenarios",
                  .columns = {{"scenario", "scenario"},
                              {"model", "arch"},
                              {"device", "device"},
                              {"answer", "answer"},
                              {"took", "seconds", Unit::seconds}}};
  for (const Json& run : reports) {
    View inner;
    answer_of_run(run, inner);
    table.rows.push_back({text_at(run, "scenario"), text_at(run, "arch"), text_at(run, "device"),
                          ViewCell(inner.lead, inner.tone), number_at(run, "seconds")});
  }
  view.sections.push_back({.title = "Overview", .tables = {table}});
}
FK_VIEW(runs_head, "fk-host.runs", 0, add_runs_head);

}  // namespace
}  // namespace fk
