// SPDX-License-Identifier: Apache-2.0
#include "core/eval/macroeval.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "core/base/error.hpp"
#include "core/measure/race_clock.hpp"
#include "core/tensor/random.hpp"

namespace fk {

namespace {

constexpr int kReplicates = 2000;
constexpr double kStandardErrors95 = 1.959964;  // of a normal, on each side of its 95 % interval

using Families = std::map<std::string, std::vector<const ArchitectureResult*>>;

Families by_family(const std::vector<ArchitectureResult>& results) {
  Families families;
  for (const auto& result : results) families[result.family].push_back(&result);
  return families;
}

void check_results(const std::vector<ArchitectureResult>& results) {
  if (results.empty()) fail("MacroEval", "there is no architecture to score");
  for (const auto& r : results)
    for (const auto& w : r.workloads)
      if (r.covered() && !(w.ratio > 0 && std::isfinite(w.ratio)))
        fail("MacroEval", r.arch + ", " + w.workload + ": the ratio is no positive number");
}

// Geometric over architectures, then over families.
double macro_speed(const Families& families,
                   const std::function<double(const ArchitectureResult&)>& log_speed) {
  double sum = 0;
  for (const auto& [family, members] : families) {
    double inner = 0;
    for (const auto* member : members) inner += log_speed(*member);
    sum += inner / static_cast<double>(members.size());
  }
  return std::exp(sum / static_cast<double>(families.size()));
}

// The log speed of an architecture with a sample of its workloads, with replacement. Each one
// brings the error of its own measurement: otherwise one workload alone would have no interval.
double sampled_log_speed(const ArchitectureResult& r, Random& random) {
  if (!r.covered() || r.workloads.empty()) return 0;
  double sum = 0;
  for (size_t i = 0; i < r.workloads.size(); ++i) {
    const auto at = random.integer(0, static_cast<int64_t>(r.workloads.size()));
    const WorkloadRatio& w = r.workloads[static_cast<size_t>(at)];
    const double error = std::log(w.high / w.low) / (2 * kStandardErrors95);
    sum += std::log(w.ratio) + error * random.normal();
  }
  return sum / static_cast<double>(r.workloads.size());
}

std::optional<Interval> bootstrap(const Families& families, uint64_t seed) {
  bool any = false;
  for (const auto& [family, members] : families)
    for (const auto* member : members)
      for (const auto& w : member->workloads) {
        if (!member->covered()) continue;
        any = true;
        if (!(w.low > 0 && std::isfinite(w.high))) return std::nullopt;
      }
  if (!any) return std::nullopt;
  Random random(seed_of("MacroEval", seed));
  std::vector<double> speeds(kReplicates);
  for (double& speed : speeds)
    speed = macro_speed(families, [&](const auto& r) { return sampled_log_speed(r, random); });
  std::sort(speeds.begin(), speeds.end());
  return Interval{quantile(speeds, 0.025), quantile(speeds, 0.975)};
}

FamilyScore family_score(const std::string& family,
                         const std::vector<const ArchitectureResult*>& members) {
  FamilyScore out;
  out.family = family;
  out.architectures = static_cast<int>(members.size());
  for (const auto* member : members) {
    out.covered += member->covered();
    out.of.correctness += member->correctness / static_cast<double>(members.size());
  }
  out.of.coverage = static_cast<double>(out.covered) / static_cast<double>(members.size());
  out.of.speed = macro_speed({{family, members}},
                             [](const auto& r) { return std::log(architecture_speed(r)); });
  return out;
}

}  // namespace

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return values.empty() ? 1 : std::exp(sum / static_cast<double>(values.size()));
}

double architecture_speed(const ArchitectureResult& result) {
  std::vector<double> ratios;
  if (result.covered())
    for (const auto& w : result.workloads) ratios.push_back(w.ratio);
  return geometric_mean(ratios);
}

double calibrated(double of_allowed, double mutant_of_allowed) {
  if (!(of_allowed > 1)) return std::isnan(of_allowed) ? 0 : 1;
  // A mutant that passes would make every answer right: the host judges nothing then.
  if (!(mutant_of_allowed > 1) || !(of_allowed < mutant_of_allowed)) return 0;
  if (std::isinf(mutant_of_allowed)) return 0;
  return 1 - std::log(of_allowed) / std::log(mutant_of_allowed);
}

MacroEval macroeval(const std::vector<ArchitectureResult>& results, uint64_t seed) {
  check_results(results);
  const Families families = by_family(results);
  MacroEval out;
  const auto count = static_cast<double>(families.size());
  for (const auto& [family, members] : families) {
    out.families.push_back(family_score(family, members));
    out.of.correctness += out.families.back().of.correctness / count;
    out.of.coverage += out.families.back().of.coverage / count;
  }
  out.of.speed =
      macro_speed(families, [](const auto& r) { return std::log(architecture_speed(r)); });
  out.score = out.of.score();
  out.speed_interval = bootstrap(families, seed);
  if (const auto& speed = out.speed_interval) {
    const double rest = out.of.correctness * out.of.coverage;
    out.score_interval = Interval{speed->low * rest, speed->high * rest};
  }
  return out;
}

}  // namespace fk
