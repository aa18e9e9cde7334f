// SPDX-License-Identifier: Apache-2.0
// MacroEval: one score of a submission over whole models. docs/macroeval.md has the definition, its
// reasons, and an example computed by hand. Pure numbers: knows no plugin, file or device.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fk {

// One workload of a model. Throughput or latency: both are a ratio of times.
struct WorkloadRatio {
  std::string workload, kind;  // kind: "throughput" or "latency"
  // The baseline's time over the submission's, with its 95 % interval. `low` 0: no interval is
  // known.
  double ratio = 1, low = 0, high = 0;
};

// One architecture, with the submission in its place.
struct ArchitectureResult {
  std::string arch, family;
  bool takes_effect = false;  // a node of the model is the submission's
  bool passes = false;        // all answers are right
  double correctness = 0;     // the calibrated signal, 0 to 1
  std::vector<WorkloadRatio> workloads;
  std::string why;  // if it does not count as covered
  bool covered() const { return takes_effect && passes; }
};

struct Interval {
  double low = 0, high = 0;
};

// The three components over a set of architectures.
struct Components {
  double speed = 1, correctness = 0, coverage = 0;
  double score() const { return speed * correctness * coverage; }
};

struct FamilyScore {
  std::string family;
  int architectures = 0, covered = 0;
  Components of;
};

struct MacroEval {
  Components of;
  double score = 0;
  // 95 %, of `of.speed` and of `score`. Nothing: a counted workload has no interval of its own, or
  // no workload counts.
  std::optional<Interval> speed_interval, score_interval;
  std::vector<FamilyScore> families;  // by name
};

// Error when there is no architecture, or a covered one has a ratio that is not positive.
// `seed` chooses the replicates of the bootstrap.
MacroEval macroeval(const std::vector<ArchitectureResult>& results, uint64_t seed);

// Geometric mean of an architecture's ratios; 1 if it is not covered or has no workload.
double architecture_speed(const ArchitectureResult& result);

// The signal of answers on [0, 1]. The arguments are the worst error as a multiple of what is
// allowed: of these answers, and of the best mutant. 1: at most what is allowed. 0: the mutant's
// error or more. Between them it falls with the logarithm of the error.
double calibrated(double of_allowed, double mutant_of_allowed);

// Geometric mean; 1 without values.
double geometric_mean(const std::vector<double>& values);

}  // namespace fk
