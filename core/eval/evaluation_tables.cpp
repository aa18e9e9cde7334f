// SPDX-License-Identifier: Apache-2.0
#include "core/eval/evaluation_tables.hpp"

#include <cstdio>

#include "core/base/text.hpp"
#include "core/judge/verdict/verdict.hpp"

namespace fk {

namespace {

std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}
std::string figure(const std::optional<double>& value) { return value ? figure(*value) : ""; }

std::string with_interval(double value, const std::optional<double>& low,
                          const std::optional<double>& high) {
  return figure(value) + (low && high ? " (" + figure(*low) + "-" + figure(*high) + ")" : "");
}
std::string seconds_text(const std::optional<double>& seconds) {
  return seconds ? human_duration(*seconds) : "";
}

Style style_of_status(const std::string& text) {
  if (text == "faster" || text == "correct") return Style::good;
  if (text == "untouched" || text == "unused" || text == "refused" || text == "not judged")
    return Style::weak;
  const auto status = status_of(text);
  const bool bad = text == "failed" || text == "slower" || (status && is_failure(*status));
  return bad ? Style::bad : Style::plain;
}

Table family_table(const Evaluation& e) {
  Table table({{"family"},
               {"architectures", Align::right},
               {"covered", Align::right},
               {"speed", Align::right},
               {"correctness", Align::right},
               {"coverage", Align::right}});
  const auto row = [&](const std::string& name, int architectures, int covered,
                       const Components& c) {
    table.row({name, std::to_string(architectures), std::to_string(covered), figure(c.speed),
               figure(c.correctness), figure(c.coverage)});
  };
  int architectures = 0, covered = 0;
  for (const auto& f : e.families) {
    row(f.family, f.architectures, f.covered, f.of);
    architectures += f.architectures, covered += f.covered;
  }
  if (e.families.size() > 1) row("all", architectures, covered, e.components);
  return table;
}

Table level_table(const Evaluation& e) {
  Table table({{"level"},
               {"cases", Align::right},
               {"right", Align::right},
               {"timed", Align::right},
               {"x baseline", Align::right},
               {"of roofline", Align::right},
               {"baseline's", Align::right}});
  for (const auto& l : e.levels)
    table.row({l.level ? "L" + std::to_string(l.level) : "all", std::to_string(l.cases),
               std::to_string(l.right), std::to_string(l.timed), figure(l.ratio),
               figure(l.roofline), figure(l.baseline_roofline)});
  return table;
}

Table fast_table(const Evaluation& e) {
  Table table({{"p", Align::right}, {"fast_p", Align::right}});
  for (const auto& f : e.fast_p) {
    char p[16];
    std::snprintf(p, sizeof p, "%g", f.p);
    table.row({p, figure(f.share)});
  }
  return table;
}

Table model_table(const Evaluation& e) {
  Table table({{"scenario"},
               {"family"},
               {"mode"},
               {"verdict"},
               {"signal", Align::right},
               {"workload"},
               {"kind"},
               {"x baseline (95 %)", Align::right},
               {"round", Align::right},
               {"baseline's", Align::right},
               {"first token", Align::right},
               {"baseline's", Align::right},
               {"speed"},
               {"why"}});
  for (const auto& m : e.models) {
    const std::vector<Cell> head = {m.scenario, m.family, m.mode,
                                    Cell(m.verdict, style_of_status(m.verdict)), figure(m.signal)};
    if (m.workloads.empty()) {
      auto cells = head;
      cells.resize(13, Cell(""));
      cells.emplace_back(excerpt(m.why, 160));
      table.row(cells);
    }
    for (const auto& w : m.workloads) {
      auto cells = head;
      for (const Cell& cell : std::vector<Cell>{
               w.workload, w.kind, w.ratio ? with_interval(*w.ratio, w.low, w.high) : "",
               seconds_text(w.round_s), seconds_text(w.baseline_round_s),
               seconds_text(w.first_token_s), seconds_text(w.baseline_first_token_s),
               Cell(w.verdict, style_of_status(w.verdict)),
               excerpt(w.why.empty() ? m.why : w.why, 160)})
        cells.push_back(cell);
      table.row(cells);
    }
  }
  return table;
}

Table case_table(const Evaluation& e) {
  Table table({{"plugin"},
               {"op"},
               {"level"},
               {"case"},
               {"inputs"},
               {"status"},
               {"x baseline (99 %)", Align::right},
               {"of roofline", Align::right},
               {"baseline"},
               {"receipt"},
               {"why"}});
  for (const auto& c : e.cases)
    table.row({c.plugin, c.op, "L" + std::to_string(c.level),
               c.case_name + (c.variant.empty() ? "" : ", " + c.variant), c.inputs,
               Cell(c.status, style_of_status(c.status)),
               c.ratio ? with_interval(*c.ratio, c.low, c.high) : "", figure(c.roofline),
               c.baseline, c.receipt, excerpt(c.why, 160)});
  return table;
}

Table left_out_table(const std::vector<NotRun>& rows) {
  Table table({{"what"}, {"why"}});
  for (const auto& row : rows) table.row({row.what, excerpt(row.why, 300)});
  return table;
}

}  // namespace

std::vector<NamedTable> evaluation_tables(const Evaluation& e) {
  std::vector<NamedTable> out;
  const auto add = [&](const char* name, const char* title, Table table) {
    if (!table.empty()) out.push_back({name, title, std::move(table)});
  };
  add("cases", "Tier 1: ops", case_table(e));
  add("levels", "Means by level of the ops, over right cases", level_table(e));
  add("fast_p", "Share of cases that are right and more than p times as fast", fast_table(e));
  add("models", "Tier 2: the submission inside each model", model_table(e));
  add("families", "Tier 3: MacroEval by family", family_table(e));
  add("missing", "Jobs without a result", left_out_table(e.missing));
  add("left_out", "Left out", left_out_table(e.left_out));
  return out;
}

std::string score_line(const Evaluation& e) {
  if (!e.complete)
    return "no score: " + std::to_string(e.missing.size()) +
           " jobs have no result; the same "
           "command continues with them";
  return with_interval(e.score.value, e.score.low, e.score.high) + ": speed " +
         with_interval(e.speed.value, e.speed.low, e.speed.high) + ", correctness " +
         figure(e.components.correctness) + ", coverage " + figure(e.components.coverage) +
         (e.speed_judged ? "" : " (the profile has no speed: every ratio counts as 1)");
}

std::string evaluation_text(const Evaluation& e, bool colour) {
  std::string out = styled(e.submission, Style::strong, colour) + " by " + excerpt(e.author, 100) +
                    " (" + e.kind + "), " + std::to_string(e.plugins.size()) +
                    (e.plugins.size() == 1 ? " plugin" : " plugins") + ", suite " + e.suite +
                    " on " + e.device + "\n";
  for (const auto& [name, title, table] : evaluation_tables(e))
    out += "\n" + styled(title, Style::strong, colour) + "\n" + table.text(colour);
  out += "\n" + styled("MacroEval " + score_line(e), Style::strong, colour) + "\n";
  const std::string id = e.complete ? ", evaluation " + e.id : "";
  return out + "  " + (e.signed_by.empty() ? "not signed: " + e.unsigned_because : "signed") + id +
         ", jobs took " + human_duration(e.seconds) + "\n";
}

}  // namespace fk
