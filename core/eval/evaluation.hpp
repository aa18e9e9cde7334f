// SPDX-License-Identifier: Apache-2.0
// The result of an evaluation, with the fields of its JSON (`fk-host.evaluation/1`). Reports, HTML,
// CSV, the leaderboard and comparisons read this alone.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.hpp"
#include "core/eval/macroeval.hpp"

namespace fk {

// Tier 1: one case of an op.
struct EvalCase {
  std::string plugin, op, case_name, size, variant;
  int level = 1, ranks = 1;
  std::string inputs;  // generated, uniform, skewed or recorded
  std::string status, why, baseline, receipt;
  std::optional<double> ratio, low, high;             // empty: not timed
  std::optional<double> roofline, baseline_roofline;  // least time of the device over the median
  bool right = false, judged = false;
};
template <class Visitor>
void fields(Visitor& v, EvalCase& c) {
  v("plugin", c.plugin, "the submission's plugin");
  v("op", c.op, "the op");
  v("level", c.level, "its level, 1 to 4");
  v("case", c.case_name, "the case");
  v("variant", c.variant, "the variant of the case; empty: as written");
  v("size", c.size, "smoke, ci, full, range or captured");
  v("ranks", c.ranks, "number of ranks that call the case together");
  v("inputs", c.inputs,
    "generated: no input decides the work; uniform or skewed: generated experts of tokens; "
    "recorded: from a run of a model");
  v("status", c.status, "status of the verdict");
  v("why", c.why, "one sentence; empty where the status says all");
  v("judged", c.judged, "false: untestable or unjudged, so it counts nowhere");
  v("right", c.right, "whether the answers are right");
  v("baseline", c.baseline, "the plugin that it raced; empty: none");
  v("ratio", c.ratio, "the baseline's time over the candidate's; null: not timed");
  v("low", c.low, "lower end of its 99 % interval");
  v("high", c.high, "upper end");
  v("roofline", c.roofline, "the device's least time over the measured time; null: unknown");
  v("baseline_roofline", c.baseline_roofline, "the same of the baseline");
  v("receipt", c.receipt, "id of the verdict's receipt");
}

// Tier 2: one workload of a model.
struct EvalWorkload {
  std::string workload, kind, verdict, why;
  std::optional<double> ratio, low, high;
  std::optional<double> round_s, baseline_round_s, first_token_s, baseline_first_token_s;
  std::optional<double> decode_tokens_per_s, baseline_decode_tokens_per_s;
};
template <class Visitor>
void fields(Visitor& v, EvalWorkload& w) {
  v("workload", w.workload, "the workload");
  v("kind", w.kind, "throughput or latency");
  v("verdict", w.verdict, "the interval's answer about speed");
  v("why", w.why, "why it was not done, or why its answers are wrong");
  v("ratio", w.ratio,
    "the baseline's time over the submission's; null: not measured or not judged");
  v("low", w.low, "lower end of its 95 % interval; null: unknown");
  v("high", w.high, "upper end; null: unknown");
  v("round_s", w.round_s, "median time of a round");
  v("baseline_round_s", w.baseline_round_s, "the same of the baseline");
  v("first_token_s", w.first_token_s, "median time until the first token of a request");
  v("baseline_first_token_s", w.baseline_first_token_s, "the same of the baseline");
  v("decode_tokens_per_s", w.decode_tokens_per_s, "median of output tokens a second");
  v("baseline_decode_tokens_per_s", w.baseline_decode_tokens_per_s, "the same of the baseline");
}

struct EvalModel {
  std::string scenario, arch, family, profile, mode;
  std::string verdict, why;
  bool scored = true, takes_effect = false, passes = false;
  double signal = 0;
  std::optional<double> of_allowed, mutant_of_allowed;
  std::vector<std::string> ops;  // "op: plugin"
  std::vector<EvalWorkload> workloads;
};
template <class Visitor>
void fields(Visitor& v, EvalModel& m) {
  v("scenario", m.scenario, "the scenario");
  v("arch", m.arch, "its architecture");
  v("family", m.family, "the architecture's family");
  v("profile", m.profile, "tiny or full");
  v("mode", m.mode, "captured or eager: with or without graphs of the device");
  v("scored", m.scored, "whether it counts in the score; the eager run of a GPU does not");
  v("verdict", m.verdict, "verdict of `run`; untouched: no op of it is the submission's");
  v("why", m.why, "one sentence");
  v("takes_effect", m.takes_effect, "whether a node of the model is the submission's");
  v("passes", m.passes, "whether all answers are right");
  v("signal", m.signal, "calibrated signal of its answers: 1 the baseline's, 0 a mutant's");
  v("of_allowed", m.of_allowed, "worst error as a multiple of what is allowed; null: not compared");
  v("mutant_of_allowed", m.mutant_of_allowed, "the same of the best answer without work");
  v("ops", m.ops, "the submission's part of the model, `op: plugin`");
  v("workloads", m.workloads, "one row for each workload");
}

struct EvalInterval {
  double value = 0;
  std::optional<double> low, high;
};
template <class Visitor>
void fields(Visitor& v, EvalInterval& i) {
  v("value", i.value, "the value");
  v("low", i.low, "lower end of the 95 % interval; null: there is none");
  v("high", i.high, "upper end");
}

template <class Visitor>
void fields(Visitor& v, Components& c) {
  v("speed", c.speed, "S: geometric over architectures and families; 1 is the baseline");
  v("correctness", c.correctness, "C: mean of the calibrated signals");
  v("coverage", c.coverage, "share of architectures with effect and right answers");
}
template <class Visitor>
void fields(Visitor& v, FamilyScore& f) {
  v("family", f.family, "the family");
  v("architectures", f.architectures, "number of its architectures in the suite");
  v("covered", f.covered, "with effect and right answers");
  fields(v, f.of);
}

struct EvalLevel {
  int level = 1, cases = 0, right = 0, timed = 0;
  std::optional<double> ratio, roofline, baseline_roofline;
};
template <class Visitor>
void fields(Visitor& v, EvalLevel& l) {
  v("level", l.level, "level of the ops; 0: all levels");
  v("cases", l.cases, "judged cases");
  v("right", l.right, "right ones");
  v("timed", l.timed, "right ones with a race");
  v("ratio", l.ratio, "geometric mean of their ratios; null: none was timed");
  v("roofline", l.roofline, "geometric mean of their shares of the roofline; null: unknown");
  v("baseline_roofline", l.baseline_roofline, "the same of their baselines");
}

struct EvalFastP {
  double p = 0, share = 0;
};
template <class Visitor>
void fields(Visitor& v, EvalFastP& f) {
  v("p", f.p, "the least ratio");
  v("share", f.share, "share of judged cases that are right with a larger ratio; p 0: right");
}

struct NotRun {
  std::string what, why;
};
template <class Visitor>
void fields(Visitor& v, NotRun& l) {
  v("what", l.what, "a job, a scenario or a case");
  v("why", l.why, "one sentence");
}

struct EvalPlugin {
  std::string name, version, file, sha256;
  std::vector<std::string> ops;
};
template <class Visitor>
void fields(Visitor& v, EvalPlugin& p) {
  v("name", p.name, "its name");
  v("version", p.version, "its version");
  v("file", p.file, "its file, relative to the submission");
  v("sha256", p.sha256, "of the file");
  v("ops", p.ops, "its ops");
}

struct Evaluation {
  static constexpr const char* kSchema = "fk-host.evaluation/1";
  static constexpr const char* kTitle = "A submission's evaluation by `fk-host eval`";
  std::string id, suite, suite_sha256, submission, author, kind, budget, commit, note;
  std::vector<EvalPlugin> plugins;
  std::string device, driver, host, host_build, date;
  double seconds = 0;
  bool complete = false, speed_judged = false;
  std::vector<NotRun> missing, left_out;
  EvalInterval score, speed;
  Components components;
  uint64_t seed = 0;
  std::vector<FamilyScore> families;
  std::vector<EvalFastP> fast_p;
  std::vector<EvalLevel> levels;
  std::vector<EvalModel> models;
  std::vector<EvalCase> cases;
  std::string signed_by, unsigned_because, signature;
};
template <class Visitor>
void fields(Visitor& v, Evaluation& e) {
  v("id", e.id, "the first 16 digits of the SHA-256 of the other fields");
  v("suite", e.suite, "the suite");
  v("suite_sha256", e.suite_sha256, "SHA-256 of the suite's file and its scenarios");
  v("submission", e.submission, "name of the submission");
  v("author", e.author, "as in the manifest");
  v("kind", e.kind, "agent, human, vendor or baseline");
  v("budget", e.budget, "as in the manifest");
  v("commit", e.commit, "as in the manifest");
  v("note", e.note, "as in the manifest");
  v("plugins", e.plugins, "the submission's plugins");
  v("device", e.device, "the device");
  v("driver", e.driver, "driver of the device");
  v("host", e.host, "the machine");
  v("host_build", e.host_build, "build id of fk-host");
  v("date", e.date, "end of the last job, UTC: equal results give an equal document");
  v("seconds", e.seconds, "time of all jobs, also those of earlier calls");
  v("complete", e.complete, "false: a job has no result, so there is no score");
  v("missing", e.missing, "jobs without a result");
  v("left_out", e.left_out, "parts of the suite that this device cannot run; they do not count");
  v("speed_judged", e.speed_judged, "false: the profile has no speed, so every ratio counts as 1");
  v("score", e.score, "MacroEval: S * C * coverage");
  v("speed", e.speed, "S with its interval");
  v("components", e.components, "the components of the score");
  v("seed", e.seed, "seed of the bootstrap");
  v("families", e.families, "the components by family");
  v("fast_p", e.fast_p, "shares of fast cases");
  v("levels", e.levels, "means by level of the ops; the first row has all levels");
  v("models", e.models, "tier 2: one row for each scenario and mode");
  v("cases", e.cases, "tier 1: one row for each op and case");
  v("signed_by", e.signed_by, "the public key; empty: not signed");
  v("unsigned", e.unsigned_because, "why it is not signed");
  v("signature", e.signature, "over all other fields, as of a receipt");
}

// Fills score, components, families, fast_p and levels from models and cases.
void score(Evaluation& evaluation);

// The document, signed; `signer` null: with the reason. Sets the id and the signature.
class Signer;
Json signed_evaluation(Evaluation& evaluation, const Signer* signer,
                       const std::string& unsigned_because);
// Error when the document is none, was changed after signing, or has another score than its rows.
// `unverified`: why the signature was not checked; empty: it is good.
Evaluation read_evaluation(const Json& json, const std::string& name, std::string& unverified);

}  // namespace fk
