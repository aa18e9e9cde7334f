// SPDX-License-Identifier: Apache-2.0
#include "core/archive/memory.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/text.hpp"

namespace fk {

namespace {

constexpr size_t kExamples = 3;
constexpr double kPriorSpread = 0.3;  // of log gains, before any outcome is known
constexpr double kNinety = 1.645;     // half width of a 90 % interval, in standard deviations

struct Outcomes {
  StrategyEstimate estimate;
  std::vector<double> logs;
  std::vector<std::pair<double, std::string>> gains;
};

}  // namespace

std::string strategy_key(const std::string& strategy) {
  std::vector<std::string> words;
  std::string text = lower(strategy);
  std::ranges::replace_if(
      text, [](char c) { return c == '\t' || c == '\n' || c == '\r'; }, ' ');
  for (const auto& word : split(text, ' '))
    if (!word.empty()) words.push_back(word);
  return join(words, " ");
}

std::optional<Gain> gain_over(const ProgramVerdict& child, const ProgramVerdict& parent) {
  const bool known = child.right() && parent.right() && child.speed && parent.speed && child.low &&
                     parent.low && child.high && parent.high && *parent.low > 0;
  if (!known || child.device != parent.device || child.size != parent.size) return std::nullopt;
  return Gain{*child.speed / *parent.speed, *child.low / *parent.high, *child.high / *parent.low};
}

std::vector<StrategyEstimate> strategies_of(const std::vector<JudgedProgram>& programs,
                                            const std::string& family, const std::string& kind) {
  std::map<std::string, const JudgedProgram*> by_id;
  for (const auto& p : programs) by_id[p.id] = &p;
  std::map<std::string, Outcomes> found;
  for (const auto& p : programs) {
    const std::string key = strategy_key(p.notes.strategy);
    if (key.empty() || p.family != family || p.kind != kind || p.notes.parents.empty()) continue;
    const auto parent = by_id.find(p.notes.parents[0]);
    if (parent == by_id.end()) continue;
    const auto gain = gain_over(p.verdict, parent->second->verdict);
    const auto status = status_of(p.verdict.status);
    const bool failed = status && is_failure(*status);
    if (!gain && !failed) continue;  // the outcome is unknown
    Outcomes& o = found[key];
    o.estimate.strategy = key;
    ++o.estimate.tries;
    o.estimate.right += p.verdict.right();
    o.estimate.faster += gain && gain->low > 1;
    o.logs.push_back(gain ? std::log(gain->value) : 0);
    if (gain) o.gains.emplace_back(-gain->value, p.id);
  }
  std::vector<StrategyEstimate> out;
  for (auto& [key, o] : found) {
    const auto n = static_cast<double>(o.logs.size());
    double sum = 0, squares = kPriorTries * kPriorSpread * kPriorSpread;
    for (const double x : o.logs) sum += x;
    const double mean = sum / (n + kPriorTries);
    for (const double x : o.logs) squares += (x - mean) * (x - mean);
    const double error = std::sqrt(squares / (n + kPriorTries) / (n + kPriorTries));
    o.estimate.family = family, o.estimate.kind = kind;
    o.estimate.gain = std::exp(mean);
    o.estimate.low = std::exp(mean - kNinety * error);
    o.estimate.high = std::exp(mean + kNinety * error);
    std::ranges::sort(o.gains);
    for (size_t i = 0; i < std::min(kExamples, o.gains.size()); ++i)
      o.estimate.examples.push_back(o.gains[i].second);
    out.push_back(std::move(o.estimate));
  }
  std::ranges::stable_sort(out, [](const auto& a, const auto& b) { return a.gain > b.gain; });
  return out;
}

}  // namespace fk
