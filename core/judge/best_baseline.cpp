// SPDX-License-Identifier: Apache-2.0
#include "core/judge/best_baseline.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "core/exec/ranking.hpp"

namespace fk {

namespace {

bool has(const PluginSet& plugin_set, const std::string& name, const std::string& op) {
  return std::any_of(plugin_set.baselines.begin(), plugin_set.baselines.end(),
                     [&](const FoundPlugin& b) {
                       return plugin_name(b) == name &&
                              std::any_of(b.note.ops.begin(), b.note.ops.end(),
                                          [&](const auto& note) { return note.op == op; });
                     });
}

}  // namespace

void pass_over(CandidateClient& baseline, const std::string& why, CaseVerdict& row,
               JudgePool& room) {
  RankGroup& runners = room.baseline(row.ranks);
  if (baseline.lost()) runners.condemn("crashed", "lost its device: " + why);
  if (!why.empty()) row.passed_over.push_back({baseline.plugin(), why});
  if (runners.failed()) room.renew_baseline(row.ranks);
}

std::unique_ptr<CandidateClient> best_baseline(CaseRun& case_run, const Contract& contract,
                                               CaseVerdict& row, JudgePool& room,
                                               const PluginSet& plugin_set) {
  std::vector<std::string> names;
  const Ranking ranking = ranking_of(room.device_name());
  const PosedCase posed = pose(case_run.asked(), contract, nullptr);
  const Axes axes = resolve(contract, posed.source, posed.variant).axes;
  const auto* const named = ranked(ranking, row.op, axes);
  if (named) names = *named;
  const std::string known = room.quickest(case_run.key());
  if (!named && !known.empty()) names.push_back(known);
  // A candidate may be a baseline's own file, which must not race itself.
  const std::string own = case_run.candidate().plugin();
  const bool is_baseline = has(plugin_set, own, row.op);
  const auto asked = [&](const std::string& name) {
    if (name == own) return false;
    const auto passed = [&](const PassedOver& p) { return p.name == name; };
    return has(plugin_set, name, row.op) && std::ranges::none_of(row.passed_over, passed);
  };
  std::erase_if(names, [&](const std::string& name) { return !asked(name); });
  const bool decided = !names.empty();
  for (const auto& name : plugin_set.ranked())
    if (!std::count(names.begin(), names.end(), name) && asked(name)) names.push_back(name);

  // The baseline that began the case last, if it was right: the process has one at a time.
  std::unique_ptr<CandidateClient> last;
  const auto sits = [&](const std::string& name) {
    std::string why;
    last = std::make_unique<CandidateClient>(room.baseline(row.ranks), name);
    if (case_run.baseline_is_right(*last, why)) return true;
    pass_over(*last, why, row, room);
    last.reset();
    return false;
  };
  if (plugin_set.rival) {
    const std::string name = plugin_name(*plugin_set.rival);
    const auto same = [&](const PassedOver& p) { return p.name == name; };
    const bool failed = std::ranges::any_of(row.passed_over, same);
    return !failed && sits(name) ? std::move(last) : nullptr;
  }
  std::vector<std::pair<double, std::string>> timed;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool more = i + 1 < names.size() && !is_oracle(names[i + 1]);
    if (!timed.empty() && is_oracle(names[i])) break;
    if (!sits(names[i])) continue;
    if (decided || (!more && timed.empty())) return last;
    const double seconds = case_run.quickest_s(*last);
    RankGroup& runners = last->runners();
    if (!runners.failed() && !last->lost() && std::isfinite(seconds)) {
      timed.emplace_back(seconds, names[i]);
      continue;
    }
    pass_over(*last, last->why(), row, room);
    last.reset();
  }
  std::sort(timed.begin(), timed.end());
  for (const auto& [seconds, name] : timed) {
    if (!(last && last->plugin() == name) && !sits(name)) continue;
    // Without itself among them, the quickest of the others is no news for other candidates.
    if (!is_baseline) room.remember_quickest(case_run.key(), name);
    return last;
  }
  return nullptr;
}

}  // namespace fk
