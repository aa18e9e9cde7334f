// SPDX-License-Identifier: Apache-2.0
// Training records: a line for each step from a program to its child. docs/archive.md explains the
// reward and the splits. Each key is in every line, so that readers of tables find one form.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/archive/memory.hpp"
#include "core/archive/program.hpp"

namespace fk {

// Uncertain: the value follows from the measured ratio, low and high from its 99 % interval.
struct Reward {
  double value = 0, low = 0, high = 0;
};
template <class Visitor>
void fields(Visitor& v, Reward& r) {
  v("value", r.value, "-1: failed; else log2 of the speed over the baseline, from -1 to 3");
  v("low", r.low, "the same of the lower end of the interval");
  v("high", r.high, "the same of the upper end");
}
// Right without times: 0, from -1 to 3. Nothing when the verdict says nothing about the program.
std::optional<Reward> reward_of(const ProgramVerdict& verdict);

// train, validation or test: by the name of the family alone, about 80, 10 and 10 of 100 families.
std::string split_of(const std::string& family);

struct Trajectory {
  static constexpr const char* kSchema = "fk-host.trajectory/1";
  static constexpr const char* kTitle = "A line of `fk-host trajectories export --kind steps`";
  JudgedProgram program;
  std::optional<JudgedProgram> parent;
  std::string contract, diff;
  std::optional<Gain> over_parent, over_baseline;
  std::optional<Reward> reward;
};

struct TrajectoryState {
  std::string contract, parent;
  std::vector<ProgramFile> source;
  std::optional<ProgramVerdict> feedback;
};
template <class Visitor>
void fields(Visitor& v, TrajectoryState& s) {
  v("contract", s.contract, "the op's contract as a page");
  v("parent", s.parent, "id of the parent; empty: the program is a draft");
  v("source", s.source, "the parent's files");
  v("feedback", s.feedback, "the parent's verdict; null: there is no parent");
}
struct TrajectoryAction {
  std::string strategy, stage, diff;
  std::optional<double> predicted_gain;
  std::vector<ProgramFile> source;
};
template <class Visitor>
void fields(Visitor& v, TrajectoryAction& a) {
  v("strategy", a.strategy, "the author's words");
  v("stage", a.stage, "draft or refine; empty: unknown");
  v("predicted_gain", a.predicted_gain, "the author's prediction; null: none");
  v("diff", a.diff, "unified difference from the parent");
  v("source", a.source, "the program's files");
}
struct TrajectoryResult {
  std::string status, why, device;
  bool right = false;
  std::optional<bool> kept_right;
  std::optional<Gain> over_parent, over_baseline;
};
template <class Visitor>
void fields(Visitor& v, TrajectoryResult& r) {
  v("status", r.status, "status of the verdict");
  v("why", r.why, "its reason");
  v("device", r.device, "the device");
  v("right", r.right, "true: all judged values are right");
  v("kept_right", r.kept_right, "of a right parent, whether the child is right; null: unknown");
  v("gain_over_parent", r.over_parent, "null: unknown");
  v("gain_over_baseline", r.over_baseline, "null: not timed");
}
struct Provenance {
  std::string author, created, host, receipt, license;
};
template <class Visitor>
void fields(Visitor& v, Provenance& p) {
  v("author", p.author, "an agent or a person; empty: unknown");
  v("created", p.created, "UTC");
  v("host", p.host, "version of fk-host");
  v("receipt", p.receipt, "id of the signed receipt; empty: none");
  v("license", p.license, "SPDX name, or NOASSERTION");
}
template <class Visitor>
void fields(Visitor& v, Trajectory& t) {
  JudgedProgram& p = t.program;
  std::string split = split_of(p.family);
  TrajectoryState state{t.contract, t.parent ? t.parent->id : "", {}, {}};
  if (t.parent) state.source = t.parent->files, state.feedback = t.parent->verdict;
  TrajectoryAction action{p.notes.strategy, p.notes.stage, t.diff, p.notes.predicted_gain, p.files};
  TrajectoryResult result{p.verdict.status, p.verdict.why,  p.verdict.device, p.verdict.right(), {},
                          t.over_parent,    t.over_baseline};
  const auto status = status_of(p.verdict.status);
  const bool known = status && (is_right(*status) || is_failure(*status));
  if (known && t.parent && t.parent->verdict.right()) result.kept_right = is_right(*status);
  Provenance from{p.notes.author, p.created, p.verdict.host, p.verdict.receipt,
                  p.notes.license.empty() ? "NOASSERTION" : p.notes.license};
  v("id", p.id, "id of the program");
  v("op", p.op, "the op");
  v("family", p.family, "the op's family");
  v("kind", p.kind, "kind of device");
  v("language", p.language, "language of the source");
  v("split", split, "train, validation or test, by the op's family");
  v("state", state, "what the author knew");
  v("action", action, "what the author did");
  v("result", result, "what the judge said");
  v("reward", t.reward, "for reinforcement learning; null: the host failed");
  v("provenance", from, "where it comes from");
}

// A prompt and answers for training, in the keys that trainers expect.
struct TrainingPair {
  static constexpr const char* kSchema = "fk-host.training/1";
  static constexpr const char* kTitle =
      "A line of `fk-host trajectories export` for supervised, preferences and rewards";
  std::string kind, op, family, split, prompt, completion, chosen, rejected;
  std::vector<std::string> ids, licenses;
  std::optional<Gain> gain;
  std::optional<Reward> reward;
};
template <class Visitor>
void fields(Visitor& v, TrainingPair& t) {
  v("kind", t.kind, "supervised, preferences or rewards");
  v("op", t.op, "the op");
  v("family", t.family, "the op's family");
  v("split", t.split, "train, validation or test, by the op's family");
  v("ids", t.ids, "ids of the answers' programs");
  v("licenses", t.licenses, "their licences: SPDX names, or NOASSERTION");
  v("prompt", t.prompt, "contract, parent and feedback");
  const bool pair = t.kind == "preferences";
  v.optional("completion", t.completion, !pair, "the source");
  v.optional("chosen", t.chosen, pair, "the better source of two siblings");
  v.optional("rejected", t.rejected, pair, "the other one");
  v.optional("gain", t.gain, t.kind != "rewards",
             "supervised: over the parent; preferences: of the chosen one over the other, null: it "
             "failed");
  v.optional("reward", t.reward, t.kind == "rewards", "as in steps");
}

struct TrajectoryFilter {
  double gain = 1.1;                  // over the parent, at least
  double low = 1;                     // its lower end, at least
  std::vector<std::string> licenses;  // empty: all
};

// Steps of programs with files, without duplicates. `contract`: the page of an op.
std::vector<Trajectory> trajectories_of(
    const std::vector<JudgedProgram>& programs,
    const std::function<std::string(const std::string& op)>& contract,
    const TrajectoryFilter& filter);
// Right steps from right parents with a high and certain gain.
std::vector<TrainingPair> supervised_of(const std::vector<Trajectory>& steps,
                                        const TrajectoryFilter& filter);
// Children of one parent: a right one with a failed one, or with a right one whose interval is
// below its own. At most kPairsMost of a parent, the largest gains first.
constexpr size_t kPairsMost = 64;
std::vector<TrainingPair> preferences_of(const std::vector<Trajectory>& steps);
std::vector<TrainingPair> rewards_of(const std::vector<Trajectory>& steps);

}  // namespace fk
