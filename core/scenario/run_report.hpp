// SPDX-License-Identifier: Apache-2.0
// Everything that a run of a scenario found, for the table and for JSON alike.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/engines/scenario.hpp"
#include "core/judge/verdict/verdict.hpp"
#include "core/scenario/metrics.hpp"
#include "core/scenario/model_verdict.hpp"
#include "core/worker/sandbox.hpp"

namespace fk {

// Nodes of one op that one provider runs in one phase.
struct OpRow {
  std::string phase, op, provider;
  int level = 1;
  int64_t nodes = 0;
  std::string refusal;  // why the first one that was asked did not take it; empty if it was taken
};

struct CorrectnessRow {
  bool done = false, ok = false;
  ErrorNumbers errors;
  ErrorLimits limits;
  std::string why;  // when it is not ok
};

struct WorkloadRow {
  std::string workload;
  bool done = false;
  std::string why;  // when it is not done, or its answers do not follow from the model
  int64_t rounds = 0, requests = 0, prompt_tokens = 0, output_tokens = 0;  // of one round
  Figure total_s, prefill_tokens_s, decode_tokens_s, first_token_s, token_s;
  std::vector<double> by_process_s;  // median time of a round in each process of the side
  Speedup speedup;                   // candidates only
  std::string verdict;               // candidates only: speed_verdict, or that it was not judged
  double same_tokens = 0;  // candidates: share of tokens equal to the baseline's in the last round
};

struct SideReport {
  // A workload that failed, or whose answers were wrong.
  void reject(WorkloadRow& row, bool violation = false);
  // The baseline's figures of a workload are those beside the first candidate that finished it.
  void keep(const WorkloadRow& row);

  std::string name, version, path;
  // correct; wrong; failed (crash, hang, ...); refused (not loaded); unused (takes no op here)
  std::string verdict;
  std::string why, log;
  std::vector<OpRow> ops;
  CorrectnessRow correctness;
  std::vector<WorkloadRow> workloads;
  int64_t private_bytes = 0;            // packed weights, persistent, states, arena, scratch
  std::vector<Protection> protections;  // candidates: of the host from it
};

// The device is too small for a run, whoever else uses it.
struct TooLarge {
  std::string what;                           // needs so many bytes, and why
  int64_t needs_bytes = 0, device_bytes = 0;  // of one device
};

// A tiny model says nothing about the speed of the real one.
inline bool judges_speed(const Scenario& scenario) { return scenario.profile != "tiny"; }

struct RunReport {
  std::string scenario, summary, arch, profile, dtype, device, host;
  std::string driver, host_build, date;    // of the device, this program, the begin in UTC
  std::string note;                        // about the profile
  std::vector<std::string> weights_notes;  // about the checkpoint
  std::string room;  // what was done otherwise than the scenario says, to fit the device
  Parallel parallel;
  uint64_t seed = 0;                 // of the weights
  int64_t max_batch = 0, pages = 0;  // limits of a session
  uint64_t requests_seed = 0;        // of what was asked
  int64_t weights_bytes = 0, layers = 0;
  bool speed_judged = false;
  int processes = 1;  // of each side that are timed, one after the other, where speed is judged
  SideReport baseline;
  std::vector<SideReport> candidates;
  std::vector<std::pair<std::string, std::string>> broken_plugins;  // path, why
  std::vector<std::pair<std::string, double>> spent;  // what the host did, seconds, in that order
  std::string error;     // why the run as a whole ended early: baseline, oracle, or what follows
  bool spoiled = false;  // a candidate wrote to the weights, which is its own fault
  std::optional<TooLarge> too_large;  // where that is why
  double seconds = 0;
  std::optional<ClockWatch> clocks;  // of the first GPU whenever something was said; null: none

  // What was to be run: all that the scenario says.
  void describe(const Scenario& scenario);
  // 0 all correct; 1 a candidate failed, is wrong or has spoiled the run; 3 the environment or the
  // baseline failed.
  int exit_code() const;
};

}  // namespace fk
