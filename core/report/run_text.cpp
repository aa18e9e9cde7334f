// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "core/base/text.hpp"
#include "core/report/run_text.hpp"
#include "core/report/table.hpp"

namespace fk {

namespace {

std::string share(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

std::string times(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2fx", value);
  return text;
}

// Example: "1.23 k (1.10 k-1.30 k)".
std::string rate(const Figure& f) {
  if (f.count == 0) return "-";
  const auto text = [](double v) { return human_count(static_cast<int64_t>(v)); };
  return text(f.median) + (f.count > 1 ? " (" + text(f.p10) + "-" + text(f.p90) + ")" : "");
}

std::string duration(const Figure& f) {
  if (f.count == 0) return "-";
  return human_duration(f.median) +
         (f.count > 1 ? " (" + human_duration(f.p10) + "-" + human_duration(f.p90) + ")" : "");
}

Style style_of(const std::string& verdict) {
  if (verdict == "correct" || verdict == "faster") return Style::good;
  if (verdict == "unused" || verdict == "not judged" || verdict == "same") return Style::weak;
  if (verdict == "cannot tell" || verdict.empty()) return Style::plain;
  return Style::bad;
}

class RunText {
 public:
  RunText(const RunReport& report, bool colour) : r_(report), colour_(colour) {}

  std::string all() {
    head();
    providers();
    correctness();
    speed();
    candidates();
    logs();
    if (!r_.error.empty())
      out_ += "\n" + styled("The run ended early: " + r_.error, Style::bad, colour_) + "\n";
    out_ += "\n" + summary() + " (" + human_duration(r_.seconds) + ")\n";
    return std::move(out_);
  }

 private:
  void title(const std::string& text) {
    out_ += "\n" + styled(text, Style::strong, colour_) + "\n";
  }

  void head() {
    out_ += styled(excerpt(r_.scenario), Style::strong, colour_) + ": " + excerpt(r_.summary, 300) +
            "\n";
    out_ += "  " + r_.arch + ", " + std::to_string(r_.layers) + " layers, " + r_.dtype + ", " +
            human_bytes(r_.weights_bytes) + " of weights, profile " + r_.profile +
            parallel_text(r_.parallel) + ", on " + (r_.device.empty() ? "?" : r_.device) + " (" +
            r_.host + ")\n";
    if (!r_.note.empty()) out_ += "  " + r_.note + "\n";
    for (const auto& note : r_.weights_notes) out_ += "  Weights: " + note + ".\n";
    if (!r_.room.empty()) out_ += "  " + r_.room + "\n";
    if (r_.parallel.overlap)
      out_ +=
          "  Prefill has the last products of attention and MLP as linear_all_reduce; who takes "
          "self_attention\n  or gated_mlp whole does so in decode alone.\n";
    for (const auto& [path, why] : r_.broken_plugins)
      out_ += "  " +
              styled("not usable: " + excerpt(path, 300) + ": " + excerpt(why, 300), Style::bad,
                     colour_) +
              "\n";
  }

  // One line per op and provider. Nodes of all phases are added up per side.
  void providers() {
    if (r_.baseline.ops.empty()) return;
    title("Providers of each op (nodes: calls in one step, summed over phases)");
    Table table(
        {{"op"}, {"level"}, {"side"}, {"nodes", Align::right}, {"provider"}, {"refused by"}});
    rows_of(table, "baseline", r_.baseline);
    for (const auto& candidate : r_.candidates) rows_of(table, candidate.name, candidate);
    out_ += table.text(colour_) + "  " + excerpt(r_.provider_order, 600) + "\n";
  }

  // A candidate's rows: only ops that it runs or refused.
  static void rows_of(Table& table, const std::string& side, const SideReport& s) {
    const auto refused = [&](const OpRow& op) {
      return std::ranges::any_of(s.plugins, [&](const std::string& plugin) {
        return starts_with(op.refusal, plugin + ": ");
      });
    };
    std::map<std::pair<std::string, std::string>, OpRow> sums;
    std::vector<std::pair<std::string, std::string>> order;
    for (const auto& op : s.ops) {
      const bool own = s.plugins.empty() || contains(s.plugins, op.provider) || refused(op);
      if (!own) continue;
      const auto [it, fresh] = sums.try_emplace({op.op, op.provider}, op);
      if (fresh)
        order.emplace_back(op.op, op.provider);
      else
        it->second.nodes += op.nodes;
    }
    for (const auto& key : order) {
      const OpRow& op = sums.at(key);
      table.row({op.op, "L" + std::to_string(op.level), side, std::to_string(op.nodes),
                 Cell(op.provider, contains(s.plugins, op.provider) ? Style::strong : Style::plain),
                 excerpt(op.refusal, 80)});
    }
  }

  void correctness() {
    if (!r_.baseline.correctness.done) return;
    title("Correctness (teacher-forced, against the reference in float32)");
    const bool best = r_.baseline.correctness.limits.best5 > 0;
    std::vector<Table::Column> columns{{"side"}};
    const auto column = [&](const char* what) { columns.push_back({what, Align::right}); };
    for (const char* what : {"rms", "allowed", "worst 1 %", "allowed"}) column(what);
    for (const char* what : {"best 5 % of rows", "allowed"})
      if (best) column(what);
    column("values");
    columns.push_back({"verdict"});
    Table table(std::move(columns));
    const auto row = [&](const std::string& name, const CorrectnessRow& c) {
      if (!c.done) return;
      std::vector<Cell> cells{name, share(c.errors.rms), share(c.limits.rms),
                              share(c.errors.worst1), share(c.limits.worst1)};
      for (const double value : {c.errors.best5, c.limits.best5})
        if (best) cells.push_back(share(value));
      cells.push_back(human_count(c.errors.values));
      cells.push_back(c.ok ? Cell("correct", Style::good) : Cell("wrong", Style::bad));
      table.row(std::move(cells));
    };
    row("baseline", r_.baseline.correctness);
    for (const auto& candidate : r_.candidates) row(candidate.name, candidate.correctness);
    out_ += table.text(colour_);
    figures();
    out_ +=
        "  rms, worst 1 %: root mean square and 99th percentile of the error, over the standard "
        "deviation of the reference's values.\n";
  }

  // A metric may have more than errors of values.
  void figures() {
    Table table(
        {{"side"}, {"metric " + r_.metric}, {"value", Align::right}, {"allowed", Align::right}});
    const auto rows = [&](const std::string& name, const CorrectnessRow& c) {
      for (size_t i = 0; i < std::min(c.errors.more.size(), c.limits.more.size()); ++i)
        table.row({name, c.errors.more[i].words, share(c.errors.more[i].value),
                   std::isinf(c.limits.more[i]) ? "-" : share(c.limits.more[i])});
    };
    rows("baseline", r_.baseline.correctness);
    for (const auto& candidate : r_.candidates) rows(candidate.name, candidate.correctness);
    if (!r_.baseline.correctness.errors.more.empty()) out_ += table.text(colour_);
  }

  void speed() {
    std::vector<std::string> names;
    const auto note = [&](const SideReport& side) {
      for (const auto& w : side.workloads)
        if (std::find(names.begin(), names.end(), w.workload) == names.end())
          names.push_back(w.workload);
    };
    note(r_.baseline);
    for (const auto& candidate : r_.candidates) note(candidate);
    if (names.empty()) return;
    title(r_.speed_judged
              ? "Speed (median, 10th to 90th percentile)"
              : "Speed (median, 10th to 90th percentile; not judged on a tiny profile)");
    // A model without tokens answers requests.
    const auto has_tokens = [](const SideReport& side) {
      return std::any_of(side.workloads.begin(), side.workloads.end(),
                         [](const WorkloadRow& w) { return w.prompt_tokens > 0; });
    };
    const bool tokens = has_tokens(r_.baseline),
               compared = r_.speed_judged && !r_.candidates.empty();
    std::vector<Table::Column> columns{{"workload"}, {"side"}};
    for (const char* what : {tokens ? "prefill tok/s" : "requests/s", "decode tok/s",
                             tokens ? "first token" : "answer", "per token"})
      columns.push_back({what, Align::right});
    for (const char* what : {"between processes", "speedup"})
      if (compared) columns.push_back({what, Align::right});
    columns.push_back({"verdict"});
    Table table(std::move(columns));
    for (const auto& name : names) {
      speed_row(table, name, "baseline", r_.baseline, false, compared);
      for (const auto& candidate : r_.candidates)
        speed_row(table, name, candidate.name, candidate, true, compared);
    }
    out_ += table.text(colour_);
    recorded_answers(r_.baseline);
    for (const auto& candidate : r_.candidates) recorded_answers(candidate);
    if (!compared) return;
    out_ += "  between processes: time of a round in the slowest of " +
            std::to_string(r_.processes) +
            " processes of a side, over that in the fastest.\n"
            "  speedup: the baseline's time over the candidate's. Mean over the pairs of "
            "processes, with its 95 % interval.\n";
  }

  void recorded_answers(const SideReport& side) {
    for (const auto& w : side.workloads)
      if (w.as_recorded)
        out_ += "  " + w.workload + ": " + side.name + " gives " +
                std::to_string(w.as_recorded->equal) + " of " + std::to_string(w.as_recorded->of) +
                " recorded answers again\n";
  }

  static void speed_row(Table& table, const std::string& workload, const std::string& side,
                        const SideReport& s, bool candidate, bool compared) {
    for (const auto& w : s.workloads) {
      if (w.workload != workload) continue;
      std::vector<Cell> cells{workload,
                              side,
                              rate(w.prefill_tokens_s),
                              rate(w.decode_tokens_s),
                              duration(w.first_token_s),
                              duration(w.token_s)};
      if (compared) {
        const auto [least, most] = std::ranges::minmax_element(w.by_process_s);
        cells.push_back(w.by_process_s.size() > 1 ? times(*most / *least) : "");
        cells.push_back(candidate && w.speedup.by_process.size() > 1
                            ? times(w.speedup.ratio) + " (" + times(w.speedup.low) + "-" +
                                  times(w.speedup.high) + ")"
                            : "");
      }
      cells.push_back(Cell(candidate ? w.verdict : "", style_of(w.verdict)));
      table.row(std::move(cells));
    }
  }

  void candidates() {
    if (r_.candidates.empty()) return;
    title("Candidates");
    Table table({{"candidate"}, {"verdict"}, {"why"}});
    for (const auto& c : r_.candidates)
      table.row({c.name, Cell(c.verdict, style_of(c.verdict)), c.why});
    out_ += table.text(colour_);
    // All candidates have the same sandbox; a refused one never ran.
    for (const auto& c : r_.candidates) {
      if (c.protections.empty()) continue;
      out_ += sandbox_line(c.protections);
      break;
    }
  }

  // The words that processes printed.
  void logs() {
    const auto add = [&](const SideReport& side) {
      if (side.log.empty()) return;
      title("Printed by " + side.name);
      out_ += printed_lines(side.log);
    };
    add(r_.baseline);
    for (const auto& candidate : r_.candidates) add(candidate);
  }

  std::string summary() const {
    if (r_.candidates.empty())
      return r_.error.empty() ? "No candidate: the baseline alone." : "No verdict.";
    std::map<std::string, int> counts;
    for (const auto& candidate : r_.candidates) ++counts[candidate.verdict];
    std::vector<std::string> words;
    for (const auto& [verdict, count] : counts)
      words.push_back(std::to_string(count) + " " + verdict);
    return std::to_string(r_.candidates.size()) +
           (r_.candidates.size() == 1 ? " candidate: " : " candidates: ") + join(words, ", ");
  }

  const RunReport& r_;
  bool colour_;
  std::string out_;
};

}  // namespace

std::string parallel_text(const Parallel& parallel) {
  std::string text;
  if (parallel.tp > 1) text += ", tp " + std::to_string(parallel.tp);
  if (parallel.ep > 1) text += ", ep " + std::to_string(parallel.ep);
  if (parallel.overlap) text += ", overlap";
  return text;
}

std::string printed_lines(const std::string& log) {
  auto lines = split(std::string(trim(log)), '\n');
  constexpr size_t kLines = 20;
  if (lines.size() > kLines) lines.erase(lines.begin(), lines.end() - kLines);
  std::string out;
  for (const auto& line : lines) out += "  | " + excerpt(line, 300) + "\n";
  return out;
}

std::string run_text(const RunReport& report, bool colour) {
  return fitted(RunText(report, colour).all(), report_width());
}

}  // namespace fk
