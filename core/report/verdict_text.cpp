// SPDX-License-Identifier: Apache-2.0
#include "core/report/verdict_text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/base/text.hpp"
#include "core/report/kernel_text.hpp"
#include "core/report/table.hpp"

namespace fk {

namespace {

std::string number(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string share_percent(const std::optional<double>& share) {
  return share && *share > 0 ? number("%.3g%%", 100 * *share) : "";
}

std::string duration(const std::optional<double>& seconds) {
  return seconds && *seconds > 0 ? human_duration(*seconds) : "";
}

std::string quartiles(const Timing& t) {
  return t.median_s > 0 ? human_duration(t.low_s) + "-" + human_duration(t.high_s) : "";
}

std::string share_text(double worst) {
  return std::isfinite(worst) ? number("%.3g", worst) : "not a number";
}

Style style_of(Status status) {
  if (is_failure(status)) return Style::bad;
  if (status == Status::faster || status == Status::correct) return Style::good;
  return status == Status::slower ? Style::bad : Style::plain;
}

// Examples: "decode.3, bf16, captured 1.83", "smoke1 of 2 ranks".
std::string case_text(const CaseVerdict& c) {
  std::string out = c.case_name;
  if (c.beside) out += " of " + c.size + " cases";
  if (c.ranks > 1) out += " of " + std::to_string(c.ranks) + " ranks";
  if (!c.variant.empty()) out += ", " + c.variant;
  if (!c.routing.empty()) out += ", " + c.routing + " " + number("%.3g", c.skew);
  return out;
}

// A table without its empty columns: a CPU has no launches and no occupancy.
std::string without_empty(std::vector<Table::Column> columns, std::vector<std::vector<Cell>> rows,
                          bool colour) {
  for (size_t i = columns.size(); i-- > 0;) {
    const auto at = static_cast<std::ptrdiff_t>(i);
    if (std::ranges::any_of(rows, [&](const auto& row) { return !row[i].text.empty(); })) continue;
    columns.erase(columns.begin() + at);
    for (auto& row : rows) row.erase(row.begin() + at);
  }
  Table table(std::move(columns));
  for (auto& row : rows) table.row(std::move(row));
  return table.text(colour);
}

class VerdictText {
 public:
  VerdictText(const Verdict& verdict, bool colour) : v_(verdict), colour_(colour) {}

  std::string all(bool every_case) {
    head();
    cases();
    const CaseVerdict* const told = every_case ? nullptr : case_of_why();
    int64_t others = 0;
    for (const auto& c : v_.cases) {
      const bool skipped = told && told != &c && is_failure(c.status);
      others += skipped;
      if (!skipped) details(c);
    }
    if (others)
      line("The table has " + std::to_string(others) + " more failed " +
           (others == 1 ? "case" : "cases") + "; `--verbose` explains each.\n");
    times();
    answer();
    facts();
    return std::move(out_);
  }

 private:
  void line(const std::string& text) { out_ += text + "\n"; }
  // A receipt may come from anyone: all of its texts are untrusted.
  void field(const char* name, const std::string& text) {
    constexpr size_t kMost = 4000;
    if (!text.empty()) line("  " + styled(name, Style::weak, colour_) + " " + excerpt(text, kMost));
  }
  // Several lines of untrusted text. Each is cut, with unprintable characters escaped.
  void block(const char* name, const std::string& text) {
    if (text.empty()) return;
    if (text.find('\n') == std::string::npos) return field(name, excerpt(text, 1000));
    field(name, " ");
    for (const auto& part : split(trim(text), '\n')) line("    " + excerpt(part, 300));
  }

  // The failed case that `why` is about; null: none.
  const CaseVerdict* case_of_why() const {
    const auto at = std::ranges::find_if(v_.cases, [&](const CaseVerdict& c) {
      return is_failure(c.status) && !c.why.empty() && c.next == v_.next &&
             starts_with(v_.why, c.op + ", case " + c.case_name) &&
             v_.why.find(c.why) != std::string::npos;
    });
    return at == v_.cases.end() ? nullptr : &*at;
  }

  void head() {
    const auto& c = v_.candidate;
    line(styled(excerpt(c.name, 80), Style::strong, colour_) + " " + excerpt(c.version, 40) + " (" +
         excerpt(c.path, 300) + ") on " + (v_.device.empty() ? "?" : excerpt(v_.device, 200)) +
         ", " + excerpt(v_.policy.size) + " cases");
    for (const auto& one : v_.cases)
      if (!one.captured.empty()) return line("  " + excerpt(one.captured, 200));
  }

  void cases() {
    Table table({{"op"},
                 {"case"},
                 {"status"},
                 {"x baseline (99 %)", Align::right},
                 {"time", Align::right},
                 {"of roofline", Align::right},
                 {"error of allowed", Align::right},
                 {"families", Align::right},
                 {"against"},
                 {""}});
    size_t right = 0;
    for (const auto& c : v_.cases) {
      right += c.beside && is_right(c.status);
      if (c.left_out || (c.beside && is_right(c.status))) continue;
      const TimingRow* t = c.timings.empty() ? nullptr : &c.timings.front();
      const bool compared = t && c.status != Status::correct;
      table.row({c.op, case_text(c), Cell(name_of(c.status), style_of(c.status)),
                 compared ? ratio_text(t->ratio) : "",
                 t ? duration(t->candidate.cold.median_s) : "",
                 t ? share_percent(t->candidate.roofline) : "",
                 c.errors ? share_text(c.errors->worst) : "",
                 c.families.empty() ? "" : std::to_string(c.families.size() - left_out(c, "")),
                 c.baseline, excerpt(c.why.empty() ? note_text(c) : c.why, 120)});
    }
    if (!table.empty()) line("\n" + table.text(colour_));
    if (right)
      field("beside them", std::to_string(right) +
                               (right == 1 ? " case is right" : " cases are right") +
                               " (values alone)");
    left_out_cases();
    if (right || v_.aggregate.left_out) line("");
  }

  // Groups cases by reason, because an op may have dozens.
  void left_out_cases() {
    std::vector<std::pair<std::string, std::string>> reasons;  // reason, cases
    for (const auto& c : v_.cases) {
      if (!c.left_out) continue;
      auto at = std::ranges::find(reasons, c.op + ": " + c.why,
                                  &std::pair<std::string, std::string>::first);
      if (at == reasons.end()) at = reasons.insert(at, {c.op + ": " + c.why, ""});
      at->second += (at->second.empty() ? "" : ", ") + case_text(c);
    }
    for (const auto& [why, names] : reasons)
      field("left out of a default verdict (use --thorough to judge all):",
            names + " (" + why + ")");
  }

  static std::string note_text(const CaseVerdict& c) {
    std::string out;
    if (c.of_uniform) out = "x " + number("%.3f", *c.of_uniform) + " of uniform routing";
    if (!c.generated.empty())
      out += (out.empty() ? "" : "; ") + ("made up: " + join(c.generated, ", "));
    std::vector<std::string> failed;
    for (const auto& p : c.passed_over) failed.push_back(p.name);
    if (!failed.empty())
      out += (out.empty() ? "" : "; ") + ("baselines that failed: " + join(failed, ", "));
    const size_t inputs = left_out(c, "no time");
    const auto nulls = std::count_if(c.nulls.begin(), c.nulls.end(),
                                     [](const MutantRow& n) { return !n.why.empty(); });
    std::vector<std::string> skipped;
    if (inputs) skipped.push_back(std::to_string(inputs) + " kinds of inputs");
    if (nulls) skipped.push_back(std::to_string(nulls) + " mutants");
    if (!skipped.empty())
      out += (out.empty() ? "" : "; ") + ("no time for " + join(skipped, " and "));
    return out;
  }

  // Number of families without a call, for a reason with this beginning.
  static size_t left_out(const CaseVerdict& c, const std::string& why) {
    return static_cast<size_t>(std::count_if(
        c.families.begin(), c.families.end(),
        [&](const FamilyRow& f) { return starts_with(f.status, "left out: " + why); }));
  }

  // Facts that the table has no column for.
  void details(const CaseVerdict& c) {
    if (is_right(c.status) || c.status == Status::refused || c.status == Status::unused) return;
    line(styled(excerpt(c.op + ", case " + case_text(c), 300), Style::strong, colour_) +
         (c.sizes.empty() ? "" : " (" + excerpt(c.sizes, 200) + ")") + ": " +
         styled(name_of(c.status), style_of(c.status), colour_) + ", " + info_of(c.status).meaning);
    block("why", c.why);
    field("rule", c.rule);
    block("evidence", c.evidence);
    if (c.errors) errors(*c.errors);
    std::vector<std::string> bad;
    for (const auto& f : c.families)
      if (f.status != name_of(Status::correct) && !starts_with(f.status, "left out"))
        bad.push_back(f.family + " (" + f.status + ", " + share_text(f.worst) + ")");
    field("inputs", join(bad, ", "));
    bad.clear();
    for (const auto& n : c.nulls)
      if (!n.rejected && n.why.empty()) bad.push_back(n.name);
    field("passed, though wrong:", join(bad, ", "));
    field("next", c.next);
    line("");
  }

  void errors(const ErrorFigures& e) {
    field("error",
          (e.field.empty() ? "" : e.field + ": ") + share_text(e.worst) + " of what is allowed" +
              (e.limit.empty() ? "" : " (" + e.limit + ")") +
              (e.compared == 0 ? ""
                               : ", " + std::to_string(e.wrong) + " of " +
                                     std::to_string(e.compared) + " wrong") +
              (e.first_bad < 0 ? ""
                               : ", the first at " + std::to_string(e.first_bad) + ": got " +
                                     number("%.9g", e.got) + ", want " + number("%.9g", e.want)));
    field("pattern", excerpt(e.pattern, 300));
  }

  using Rows = std::vector<std::vector<Cell>>;
  void side(Rows& rows, const CaseVerdict& c, const TimingRow& t, const SideTime& s,
            const std::string& name) {
    const auto rate = [&](double amount, double unit) {
      return amount > 0 && s.cold.median_s > 0 ? number("%.3g", amount / s.cold.median_s / unit)
                                               : "";
    };
    const auto whole = [](const std::optional<int64_t>& n) { return n ? std::to_string(*n) : ""; };
    std::string note = s.cold.dropped ? std::to_string(s.cold.dropped) + " samples dropped" : "";
    if (t.host_bound) note += (note.empty() ? "" : ", ") + std::string("host bound");
    if (!t.settled) note += (note.empty() ? "" : ", ") + std::string("not settled");
    if (t.clocks && t.clocks->throttled > 0)
      note += (note.empty() ? "" : ", ") + std::string("slowed down: ") + t.clocks->reasons;
    rows.push_back({c.op, case_text(c), s.captured ? "graph" : "eager", name,
                    duration(s.cold.median_s), quartiles(s.cold), duration(s.warm_s),
                    duration(s.clock_s), duration(s.plan_s),
                    std::to_string(s.cold.samples) +
                        (t.calls_per_sample > 1 ? " x " + std::to_string(t.calls_per_sample) : ""),
                    rate(t.bytes, 1e9), share_percent(s.of_copy), rate(t.flops, 1e12),
                    share_percent(s.roofline), whole(s.launches), whole(s.registers),
                    whole(s.local_bytes), share_percent(s.occupancy), note});
  }

  void times() {
    Rows rows;
    for (const auto& c : v_.cases)
      for (const auto& t : c.timings) {
        side(rows, c, t, t.candidate, v_.candidate.name);
        if (t.baseline.cold.samples > 0) side(rows, c, t, t.baseline, c.baseline);
      }
    if (rows.empty()) return;
    line(without_empty({{"op"},
                        {"case"},
                        {"mode"},
                        {"provider"},
                        {"cold", Align::right},
                        {"quartiles", Align::right},
                        {"warm", Align::right},
                        {"own clock", Align::right},
                        {"plan", Align::right},
                        {"samples", Align::right},
                        {"GB/s", Align::right},
                        {"of copy", Align::right},
                        {"TFLOP/s", Align::right},
                        {"of roofline", Align::right},
                        {"launches", Align::right},
                        {"registers", Align::right},
                        {"local bytes", Align::right},
                        {"occupancy", Align::right},
                        {""}},
                       std::move(rows), colour_));
  }

  void answer() {
    const auto& a = v_.aggregate;
    line(styled(name_of(v_.status), style_of(v_.status), colour_) + ": " +
         info_of(v_.status).meaning);
    if (a.ratio.value > 0)
      field("speed", ratio_text(a.ratio) + " times the baseline, geometric mean");
    block("stale", v_.stale);
    block("why", v_.why);
    if (v_.cases.empty()) block("evidence", v_.evidence);
    field("next", v_.next);
    // Output of a case before its end is that case's evidence.
    const bool seen = std::any_of(v_.cases.begin(), v_.cases.end(), [&](const CaseVerdict& c) {
      return !c.evidence.empty() && starts_with(v_.log, c.evidence);
    });
    if (!seen) block("log", v_.log);
  }

  void facts() {
    std::vector<std::string> on, off;
    for (const auto& p : v_.protections)
      (p.active ? on : off).push_back(p.name + (p.active || p.why.empty() ? "" : ": " + p.why));
    field("protections", join(on, ", ") + (off.empty() ? "" : "; not active: " + join(off, "; ")));
    if (!v_.secret.empty()) field("seeds", v_.secret + ", commitment " + v_.commitment);
    field("receipt", v_.receipt);
    block("profile", v_.kernels.empty() ? v_.profile : kernel_text(v_.kernels));
    field("took", human_duration(v_.seconds) +
                      (v_.stored ? ", on " + v_.time +
                                       "; answered from the store (--fresh runs it "
                                       "again)"
                                 : ""));
  }

  const Verdict& v_;
  const bool colour_;
  std::string out_;
};

}  // namespace

std::string ratio_text(const Ratio& r) {
  if (!(r.value > 0)) return "";
  const char* const format = r.value < 0.1 ? "%.3g" : "%.3f";
  return number(format, r.value) + " (" + number(format, r.low) + "-" + number(format, r.high) +
         ")";
}

std::vector<std::string> ops_of(const Verdict& verdict) {
  std::vector<std::string> ops;
  for (const auto& row : verdict.cases)
    if (!contains(ops, row.op)) ops.push_back(row.op);
  return ops;
}

std::string verdict_text(const Verdict& verdict, bool colour, bool every_case) {
  return fitted(VerdictText(verdict, colour).all(every_case), report_width());
}

std::string case_line(const CaseVerdict& row) {
  std::string out = row.op + ", case " + case_text(row) + ": " + name_of(row.status);
  // A race with the oracle, which is not built for speed, compares nothing.
  if (!row.timings.empty() && row.status != Status::correct)
    out += ", " + ratio_text(row.timings.front().ratio) + " times the baseline";
  return is_failure(row.status) ? out + ": " + row.why : out;
}

}  // namespace fk
