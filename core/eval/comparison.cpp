// SPDX-License-Identifier: Apache-2.0
#include "core/eval/comparison.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/error.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

// One value with its interval. Both evaluations measured it beside the same baseline, at different
// times, so their errors are independent.
struct Measured {
  std::string status;
  std::optional<double> value, low, high;
};

constexpr double kBand = 0.01;

void fill_gain(const Measured& a, const Measured& b, ComparedRow& row) {
  if (a.value.value_or(0) <= 0 || b.value.value_or(0) <= 0) return;
  row.gain = *b.value / *a.value;
  if (!(a.low && a.high && b.low && b.high) || *a.low <= 0 || *b.low <= 0) return;
  // Half widths of logarithms add up as independent errors do.
  const double half = std::hypot(std::log(*a.high / *a.low) / 2, std::log(*b.high / *b.low) / 2);
  row.low = *row.gain * std::exp(-half);
  row.high = *row.gain * std::exp(half);
  row.answer = *row.low > 1 + kBand                                    ? "better"
               : *row.high < 1 - kBand                                 ? "worse"
               : *row.low > 1 - 3 * kBand && *row.high < 1 + 3 * kBand ? "same"
                                                                       : "cannot tell";
}

using MeasuredRows = std::vector<std::pair<std::string, Measured>>;

std::vector<ComparedRow> joined(const MeasuredRows& a, const MeasuredRows& b) {
  std::vector<ComparedRow> out;
  const auto find = [](const MeasuredRows& rows, const std::string& what) {
    const auto it = std::ranges::find(rows, what, &MeasuredRows::value_type::first);
    return it == rows.end() ? Measured{} : it->second;
  };
  const auto add = [&](const std::string& what) {
    if (std::ranges::find(out, what, &ComparedRow::what) != out.end()) return;
    const Measured x = find(a, what), y = find(b, what);
    ComparedRow row{what, x.status, y.status, x.value, y.value, {}, {}, {}, ""};
    fill_gain(x, y, row);
    out.push_back(std::move(row));
  };
  for (const auto* rows : {&a, &b})
    for (const auto& [what, value] : *rows) add(what);
  return out;
}

MeasuredRows score_rows(const Evaluation& e) {
  const auto one = [](const EvalInterval& i) { return Measured{"", i.value, i.low, i.high}; };
  return {{"score", one(e.score)},
          {"speed", one(e.speed)},
          {"correctness", {"", e.components.correctness, {}, {}}},
          {"coverage", {"", e.components.coverage, {}, {}}}};
}
MeasuredRows family_rows(const Evaluation& e) {
  MeasuredRows out;
  for (const auto& f : e.families)
    out.push_back({f.family,
                   {std::to_string(f.covered) + " of " + std::to_string(f.architectures),
                    f.of.speed,
                    {},
                    {}}});
  return out;
}
MeasuredRows model_rows(const Evaluation& e) {
  MeasuredRows out;
  for (const auto& m : e.models) {
    const std::string what = m.scenario + (m.mode == "eager" ? ", eager" : "");
    if (m.workloads.empty()) out.push_back({what, {m.verdict, {}, {}, {}}});
    for (const auto& w : m.workloads)
      out.push_back({what + ", " + w.workload, {m.verdict, w.ratio, w.low, w.high}});
  }
  return out;
}
MeasuredRows op_rows(const Evaluation& e) {
  MeasuredRows out;
  for (const auto& c : e.cases)
    out.push_back({c.op + " " + c.case_name + (c.variant.empty() ? "" : ", " + c.variant) +
                       (c.inputs == "generated" ? "" : ", " + c.inputs),
                   {c.status, c.ratio, c.low, c.high}});
  return out;
}

std::string number_text(const std::optional<double>& value) {
  if (!value) return "";
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", *value);
  return text;
}

}  // namespace

SubmissionComparison compare_evaluations(const Evaluation& a, const Evaluation& b) {
  for (const auto* e : {&a, &b})
    if (!e->complete)
      fail(e->submission, "its evaluation is not complete", "fk-host eval continues it");
  if (a.suite != b.suite)
    fail("compare", a.submission + " was evaluated in the suite " + a.suite + ", " + b.submission +
                        " in " + b.suite);
  SubmissionComparison out;
  out.a = a.submission, out.b = b.submission, out.a_id = a.id, out.b_id = b.id;
  out.suite = a.suite, out.device = a.device;
  const auto note = [&](bool differs, const std::string& text) {
    if (differs) out.notes.push_back(text);
  };
  note(a.suite_sha256 != b.suite_sha256, "the suite was changed between them");
  note(a.device != b.device, "the devices differ: " + a.device + ", " + b.device);
  note(a.driver != b.driver, "the drivers differ: " + a.driver + ", " + b.driver);
  note(a.host_build != b.host_build, "another build of fk-host evaluated the second");
  out.score = joined(score_rows(a), score_rows(b));
  out.families = joined(family_rows(a), family_rows(b));
  out.models = joined(model_rows(a), model_rows(b));
  out.cases = joined(op_rows(a), op_rows(b));
  return out;
}

std::vector<NamedTable> comparison_tables(const SubmissionComparison& c) {
  std::vector<NamedTable> out;
  const auto add = [&](const char* name, const char* title, const std::vector<ComparedRow>& rows) {
    Table table({{""},
                 {c.a},
                 {"x baseline", Align::right},
                 {c.b},
                 {"x baseline", Align::right},
                 {"gain (95 %)", Align::right},
                 {""}});
    for (const auto& r : rows) {
      const Style style = r.answer == "better"  ? Style::good
                          : r.answer == "worse" ? Style::bad
                                                : Style::plain;
      const std::string interval =
          r.low ? " (" + number_text(r.low) + "-" + number_text(r.high) + ")" : "";
      table.row({r.what, r.a_status, number_text(r.a), r.b_status, number_text(r.b),
                 number_text(r.gain) + interval, Cell(r.answer, style)});
    }
    if (!table.empty()) out.push_back({name, title, std::move(table)});
  };
  add("cases", "Ops", c.cases);
  add("models", "Models", c.models);
  add("families", "Families (speed)", c.families);
  add("score", "Score and components", c.score);
  return out;
}

}  // namespace fk
