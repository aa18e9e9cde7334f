// SPDX-License-Identifier: Apache-2.0
#include "core/archive/trajectories.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/archive/difference.hpp"
#include "core/base/sha256.hpp"
#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr double kRewardFailed = -2, kRewardLeast = -1, kRewardMost = 3;
constexpr unsigned kTrain = 80, kValidation = 90;  // of 100

double reward_for(double speed) {
  return speed > 0 ? std::clamp(std::log2(speed), kRewardLeast, kRewardMost) : kRewardLeast;
}

std::string licence_of(const JudgedProgram& p) {
  return p.notes.license.empty() ? "NOASSERTION" : p.notes.license;
}

std::string text_of_files(const std::vector<ProgramFile>& files) {
  if (files.size() == 1) return files[0].text;
  std::string out;
  for (const auto& file : files) out += "=== " + file.name + "\n" + file.text;
  return out;
}

std::string prompt_of(const Trajectory& t) {
  std::string out = t.contract;
  if (!t.parent) return out + "\nWrite this op.\n";
  const ProgramVerdict& v = t.parent->verdict;
  out += "\n## The present source\n\n" + text_of_files(t.parent->files) + "\n## Its verdict\n\n" +
         v.status + ": " + v.why + "\n";
  if (v.speed && v.low && v.high)
    out += "speed over the baseline: " + std::to_string(*v.speed) + " (" + std::to_string(*v.low) +
           " to " + std::to_string(*v.high) + ")\n";
  for (const std::string* line : {&v.evidence, &v.next})
    if (!line->empty()) out += *line + "\n";
  return out + "\nWrite a better one.\n";
}

TrainingPair pair_of(const char* kind, const Trajectory& t) {
  TrainingPair out;
  out.kind = kind;
  out.op = t.program.op, out.family = t.program.family;
  out.split = split_of(t.program.family);
  out.prompt = prompt_of(t);
  out.ids = {t.program.id};
  out.licenses = {licence_of(t.program)};
  return out;
}

bool failed(const JudgedProgram& p) {
  const auto status = status_of(p.verdict.status);
  return status && is_failure(*status);
}

}  // namespace

std::optional<Reward> reward_of(const ProgramVerdict& v) {
  const auto status = status_of(v.status);
  if (!status) return std::nullopt;
  if (is_failure(*status)) return Reward{kRewardFailed, kRewardFailed, kRewardFailed};
  if (!v.right()) return std::nullopt;
  if (!v.speed || !v.low || !v.high) return Reward{0, kRewardLeast, kRewardMost};
  return Reward{reward_for(*v.speed), reward_for(*v.low), reward_for(*v.high)};
}

std::string split_of(const std::string& family) {
  const std::string hash = sha256("fk-host split of " + family);
  const auto place = static_cast<unsigned>(std::stoul(hash.substr(0, 8), nullptr, 16) % 100);
  return place < kTrain ? "train" : place < kValidation ? "validation" : "test";
}

std::vector<Trajectory> trajectories_of(
    const std::vector<JudgedProgram>& programs,
    const std::function<std::string(const std::string&)>& contract,
    const TrajectoryFilter& filter) {
  std::map<std::string, const JudgedProgram*> by_id;
  // Splits that have a source. One in two splits would leak, so all but the first are left out.
  std::map<std::string, std::string> splits;
  for (const auto& p : programs) by_id[p.id] = &p;
  std::vector<Trajectory> out;
  std::map<std::string, std::string> pages;
  for (const auto& p : programs) {
    if (!p.same_as.empty() || p.files.empty()) continue;
    if (!filter.licenses.empty() && !contains(filter.licenses, licence_of(p))) continue;
    const auto [at, fresh] = splits.emplace(p.normal, split_of(p.family));
    if (!fresh && at->second != split_of(p.family)) continue;
    Trajectory t;
    t.program = p;
    if (!p.notes.parents.empty())
      if (const auto parent = by_id.find(p.notes.parents[0]); parent != by_id.end())
        t.parent = *parent->second;
    if (t.parent && !filter.licenses.empty() && !contains(filter.licenses, licence_of(*t.parent)))
      continue;
    if (const auto page = pages.emplace(p.op, ""); page.second) page.first->second = contract(p.op);
    t.contract = pages[p.op];
    t.diff = program_diff(t.parent ? t.parent->files : std::vector<ProgramFile>(), p.files);
    if (t.parent) t.over_parent = gain_over(p.verdict, t.parent->verdict);
    const ProgramVerdict& v = p.verdict;
    if (v.right() && v.speed && v.low && v.high) t.over_baseline = Gain{*v.speed, *v.low, *v.high};
    t.reward = reward_of(v);
    out.push_back(std::move(t));
  }
  return out;
}

std::vector<TrainingPair> supervised_of(const std::vector<Trajectory>& steps,
                                        const TrajectoryFilter& filter) {
  std::vector<TrainingPair> out;
  for (const auto& t : steps) {
    const auto& gain = t.over_parent;
    if (!gain || gain->value < filter.gain || gain->low < filter.low) continue;
    out.push_back(pair_of("supervised", t));
    out.back().completion = text_of_files(t.program.files);
    out.back().gain = gain;
  }
  return out;
}

std::vector<TrainingPair> preferences_of(const std::vector<Trajectory>& steps) {
  std::map<std::string, std::vector<const Trajectory*>> families;
  for (const auto& t : steps)
    if (t.parent) families[t.parent->id].push_back(&t);
  std::vector<TrainingPair> out;
  for (const auto& [parent, children] : families) {
    std::vector<TrainingPair> pairs;
    for (const Trajectory* better : children) {
      if (!better->program.verdict.right()) continue;
      for (const Trajectory* other : children) {
        const auto gain = gain_over(better->program.verdict, other->program.verdict);
        const bool wins = failed(other->program) || (gain && gain->low > 1);
        if (better == other || !wins) continue;
        TrainingPair pair = pair_of("preferences", *better);
        pair.chosen = text_of_files(better->program.files);
        pair.rejected = text_of_files(other->program.files);
        pair.ids.push_back(other->program.id);
        pair.licenses.push_back(licence_of(other->program));
        pair.gain = gain;
        pairs.push_back(std::move(pair));
      }
    }
    const auto size = [](const TrainingPair& p) { return p.gain ? -p.gain->value : 0; };
    std::ranges::stable_sort(pairs, {}, size);
    if (pairs.size() > kPairsMost) pairs.resize(kPairsMost);
    out.insert(out.end(), std::make_move_iterator(pairs.begin()),
               std::make_move_iterator(pairs.end()));
  }
  return out;
}

std::vector<TrainingPair> rewards_of(const std::vector<Trajectory>& steps) {
  std::vector<TrainingPair> out;
  for (const auto& t : steps) {
    if (!t.reward) continue;
    out.push_back(pair_of("rewards", t));
    out.back().completion = text_of_files(t.program.files);
    out.back().reward = t.reward;
  }
  return out;
}

}  // namespace fk
