// SPDX-License-Identifier: Apache-2.0
#include "core/referee/judge/best_baseline.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "core/runtime/ranking.hpp"

namespace fk {

namespace {

bool has(const Roster& roster, const std::string& name, const std::string& op) {
  return std::any_of(roster.baselines.begin(), roster.baselines.end(), [&](const FoundPlugin& b) {
    return plugin_name(b) == name && std::any_of(b.note.ops.begin(), b.note.ops.end(),
                                                 [&](const auto& note) { return note.op == op; });
  });
}

}  // namespace

std::unique_ptr<Sitter> best_baseline(Exam& exam, const CaseVerdict& row, Courtroom& room,
                                      const Roster& roster) {
  std::vector<std::string> names;
  const Ranking ranking = ranking_of(room.device_name());
  const auto* const named = ranked(ranking, row.op, "");
  if (named) names = *named;
  const std::string known = room.quickest(exam.key());
  if (!named && !known.empty()) names.push_back(known);
  std::erase_if(names, [&](const std::string& name) { return !has(roster, name, row.op); });
  const bool decided = !names.empty();
  for (const auto& name : roster.ranked())
    if (!std::count(names.begin(), names.end(), name) && has(roster, name, row.op))
      names.push_back(name);

  RankGroup& runners = room.baseline(row.ranks);
  std::string seated;  // whoever sat down last, right or not: the process has one at a time
  const auto sits = [&](const std::string& name) {
    seated = name;
    auto sitter = std::make_unique<Sitter>(runners, name);
    if (exam.baseline_is_right(*sitter)) return sitter;
    if (sitter->lost()) runners.condemn("crashed", "lost its device: " + sitter->words());
    if (runners.failed()) throw Error("the baseline", runners.failure().sentence());
    return std::unique_ptr<Sitter>();
  };
  std::unique_ptr<Sitter> last;
  std::string best;
  double best_s = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool more = i + 1 < names.size() && !is_oracle(names[i + 1]);
    if (!best.empty() && is_oracle(names[i])) break;
    auto sitter = sits(names[i]);
    if (!sitter) continue;
    last = std::move(sitter);
    if (decided || (!more && best.empty())) return last;
    const double seconds = exam.quickest_s(*last);
    if (!std::isfinite(seconds) || (!best.empty() && seconds >= best_s)) continue;
    best = names[i];
    best_s = seconds;
  }
  if (best.empty()) return nullptr;
  room.remember_quickest(exam.key(), best);
  return seated == best ? std::move(last) : sits(best);
}

}  // namespace fk
