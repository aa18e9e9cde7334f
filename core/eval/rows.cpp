// SPDX-License-Identifier: Apache-2.0
#include "core/eval/rows.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/text.hpp"
#include "core/judge/verdict/verdict.hpp"

namespace fk {

namespace {

// The parts of a run's document that count. Other keys are ignored, missing ones keep defaults.
struct FigureFacts {
  double median = 0;
};
template <class Visitor>
void fields(Visitor& v, FigureFacts& f) {
  v("median", f.median);
}
struct SpeedupFacts {
  double ratio = 0, low = 0, high = 0;
};
template <class Visitor>
void fields(Visitor& v, SpeedupFacts& s) {
  v("ratio", s.ratio);
  v("low", s.low);
  v("high", s.high);
}
struct WorkloadFacts {
  std::string workload, kind, verdict, why;
  bool done = false;
  std::optional<SpeedupFacts> speedup;
  std::optional<FigureFacts> round_s, first_token_s, decode_tokens_per_s;
};
template <class Visitor>
void fields(Visitor& v, WorkloadFacts& w) {
  v("workload", w.workload);
  v("kind", w.kind);
  v("verdict", w.verdict);
  v("why", w.why);
  v("done", w.done);
  v("speedup", w.speedup);
  v("round_s", w.round_s);
  v("first_token_s", w.first_token_s);
  v("decode_tokens_per_s", w.decode_tokens_per_s);
}
struct CorrectnessFacts {
  bool ok = false;
  double of_allowed = 0, mutant_of_allowed = 0;
};
template <class Visitor>
void fields(Visitor& v, CorrectnessFacts& c) {
  v("ok", c.ok);
  v("of_allowed", c.of_allowed);
  v("mutant_of_allowed", c.mutant_of_allowed);
}
struct OpFacts {
  std::string op, provider;
};
template <class Visitor>
void fields(Visitor& v, OpFacts& o) {
  v("op", o.op);
  v("provider", o.provider);
}
struct SideFacts {
  std::string verdict, why;
  std::vector<std::string> plugins;
  std::optional<CorrectnessFacts> correctness;
  std::vector<OpFacts> ops;
  std::vector<WorkloadFacts> workloads;
};
template <class Visitor>
void fields(Visitor& v, SideFacts& s) {
  v("verdict", s.verdict);
  v("why", s.why);
  v("plugins", s.plugins);
  v("correctness", s.correctness);
  v("ops", s.ops);
  v("workloads", s.workloads);
}
struct RunFacts {
  std::string schema, error;
  int exit_code = 0;
  bool speed_judged = false;
  SideFacts baseline;
  std::vector<SideFacts> candidates;
};
template <class Visitor>
void fields(Visitor& v, RunFacts& r) {
  v("schema", r.schema);
  v("error", r.error);
  v("exit_code", r.exit_code);
  v("speed_judged", r.speed_judged);
  v("baseline", r.baseline);
  v("candidates", r.candidates);
}

std::optional<double> finite(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}
std::optional<double> median(const std::optional<FigureFacts>& figure) {
  return figure ? finite(figure->median) : std::nullopt;
}

std::string inputs_of(const CaseVerdict& c) {
  if (!c.captured.empty())
    return c.routing == "skewed" || c.routing == "uniform" ? c.routing : "recorded";
  return c.routing.empty() ? "generated" : c.routing;
}

EvalWorkload workload_of(const WorkloadFacts& own, const SideFacts& baseline) {
  EvalWorkload out;
  out.workload = own.workload, out.kind = own.kind, out.verdict = own.verdict, out.why = own.why;
  if (own.speedup && own.done && own.why.empty()) {
    out.ratio = finite(own.speedup->ratio);
    if (own.speedup->low > 0) out.low = own.speedup->low;
    out.high = finite(own.speedup->high);
  }
  out.round_s = median(own.round_s);
  out.first_token_s = median(own.first_token_s);
  out.decode_tokens_per_s = median(own.decode_tokens_per_s);
  const auto other = std::ranges::find(baseline.workloads, own.workload, &WorkloadFacts::workload);
  if (other == baseline.workloads.end()) return out;
  out.baseline_round_s = median(other->round_s);
  out.baseline_first_token_s = median(other->first_token_s);
  out.baseline_decode_tokens_per_s = median(other->decode_tokens_per_s);
  return out;
}

// docs/macroeval.md, C.
double signal_of(const SideFacts& side) {
  if (side.verdict == "correct" || side.verdict == "unused" || side.verdict == "refused") return 1;
  if (side.verdict != "wrong" || !side.correctness) return 0;
  // Answers of a timed run do not follow from the model.
  for (const auto& workload : side.workloads)
    if (!workload.why.empty()) return 0;
  return calibrated(side.correctness->of_allowed, side.correctness->mutant_of_allowed);
}

}  // namespace

std::string no_result(const EvalJob& job, const Json& document) {
  if (job.tier == 1) {
    const Verdict verdict = verdict_from(document, job.what);
    return verdict.status == Status::environment ? "the host failed: " + verdict.why : "";
  }
  const auto run = from_fields<RunFacts>(document, job.what, {});
  if (run.exit_code != 3 && run.candidates.size() == 1) return "";
  return run.error.empty() ? "there is no candidate in the run" : run.error;
}

std::vector<EvalCase> case_rows(const EvalJob& job, const Json& document, const Catalog& catalog,
                                std::vector<NotRun>& left_out) {
  const Verdict verdict = verdict_from(document, job.what);
  std::vector<EvalCase> out;
  const auto row = [&](const std::string& op) {
    EvalCase c;
    c.plugin = job.plugin;
    c.op = op;
    c.level = catalog.at(op).level;
    c.receipt = verdict.receipt;
    return c;
  };
  for (const auto& from : verdict.cases) {
    if (from.beside && !is_failure(from.status)) continue;
    if (from.left_out) {
      left_out.push_back({job.what + ", " + from.case_name, from.why});
      continue;
    }
    EvalCase c = row(from.op);
    c.case_name = from.case_name;
    c.size = from.size;
    c.variant = from.variant;
    c.ranks = from.ranks;
    c.inputs = inputs_of(from);
    c.status = name_of(from.status);
    c.why = from.why;
    c.baseline = from.baseline;
    c.right = is_right(from.status);
    c.judged = from.status != Status::untestable && from.status != Status::unjudged;
    if (c.right && !from.timings.empty() && from.timings[0].ratio.value > 0) {
      const TimingRow& timing = from.timings[0];
      c.ratio = timing.ratio.value;
      c.low = finite(timing.ratio.low);
      c.high = finite(timing.ratio.high);
      if (timing.candidate.roofline.value_or(0) > 0) c.roofline = timing.candidate.roofline;
      if (timing.baseline.roofline.value_or(0) > 0) c.baseline_roofline = timing.baseline.roofline;
    }
    out.push_back(std::move(c));
  }
  if (!out.empty()) return out;
  // A verdict before the first case: it did not load, or its file breaks a rule.
  EvalCase whole = row(job.op);
  whole.inputs = "generated";
  whole.status = name_of(verdict.status);
  whole.why = verdict.why;
  whole.judged = is_failure(verdict.status) || verdict.status == Status::refused;
  return {whole};
}

EvalModel model_row(const EvalJob& job, const PlannedModel& model, const Json& document,
                    bool& speed_judged) {
  const auto run = from_fields<RunFacts>(document, job.what, {});
  const SideFacts& side = run.candidates.front();
  speed_judged |= run.speed_judged;
  EvalModel out = untouched_row(model, document.value("profile", ""));
  out.mode = job.mode;
  out.scored = job.mode == "captured";
  out.verdict = side.verdict;
  out.why = side.why;
  out.takes_effect = side.verdict != "unused" && side.verdict != "refused";
  out.passes = side.verdict == "correct";
  out.signal = signal_of(side);
  if (side.correctness) {
    out.of_allowed = finite(side.correctness->of_allowed);
    out.mutant_of_allowed = finite(side.correctness->mutant_of_allowed);
  }
  for (const auto& op : side.ops) {
    const std::string text = op.op + ": " + op.provider;
    if (contains(side.plugins, op.provider) && !contains(out.ops, text)) out.ops.push_back(text);
  }
  for (const auto& workload : side.workloads)
    out.workloads.push_back(workload_of(workload, run.baseline));
  return out;
}

EvalModel untouched_row(const PlannedModel& model, const std::string& profile) {
  EvalModel out;
  out.scenario = model.scenario, out.arch = model.arch, out.family = model.family;
  out.profile = profile;
  out.mode = "captured";
  out.verdict = "untouched";
  out.why = "no op of the model is the submission's";
  out.signal = 1;
  return out;
}

}  // namespace fk
