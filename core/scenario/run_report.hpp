// SPDX-License-Identifier: Apache-2.0
// All results of a run of a scenario, for text and JSON.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/check/plugin_set.hpp"
#include "core/engines/scenario.hpp"
#include "core/judge/verdict/verdict.hpp"
#include "core/scenario/metrics.hpp"
#include "core/scenario/model_verdict.hpp"
#include "core/exec/picture.hpp"
#include "core/worker/sandbox.hpp"

namespace fk {

// Nodes of one op that one provider runs in one phase.
struct OpRow {
  std::string phase, op, provider;
  int level = 1;
  int64_t nodes = 0;
  std::string refusal;  // the first asked provider's reason; empty: it took the node
};

struct CorrectnessRow {
  bool done = false, ok = false;
  ErrorNumbers errors;
  ErrorLimits limits;
  std::string why;  // if it is not ok
  // The worst error as a multiple of its limit; the same of the best answer without work.
  double of_allowed = 0, mutant_of_allowed = 0;
};

// Answers of a recording, and those which a side gave again.
struct RecordedAnswers {
  int64_t equal = 0, of = 0;
};

struct WorkloadRow {
  std::string workload, kind;  // kind: throughput, latency or replay
  bool done = false;
  std::string why;  // if it is not done, or if its answers do not follow from the model
  int64_t rounds = 0, requests = 0, prompt_tokens = 0, output_tokens = 0;  // of one round
  Figure total_s, prefill_tokens_s, decode_tokens_s, first_token_s, token_s;
  std::vector<double> by_process_s;            // median time of a round, by process of the side
  std::optional<RecordedAnswers> as_recorded;  // nothing: none was recorded
  Speedup speedup;                             // candidates only
  std::string verdict;     // candidates only: speed_verdict, or that speed was not judged
  double same_tokens = 0;  // candidates: share of tokens equal to the baseline's in the last round
};

struct SideReport {
  // Marks a workload that failed, or had wrong answers.
  void reject(WorkloadRow& row, bool violation = false);
  // Keeps the baseline's figures of the rounds with the first candidate that finished the workload.
  void keep(const WorkloadRow& row);

  std::string name, version, path;
  std::vector<std::string> plugins;  // candidates: names of its plugins
  // correct; wrong; failed (crash, hang, ...); refused (not loaded); unused (takes no op here)
  std::string verdict;
  std::string why, log;
  std::vector<OpRow> ops;
  CorrectnessRow correctness;
  std::vector<WorkloadRow> workloads;
  int64_t private_bytes = 0;            // packed weights, persistent, states, arena, scratch
  std::vector<Protection> protections;  // candidates: protections of the host against it
};

// Calls of one op by one provider in the steps of a phase that were traced (trace_run.hpp).
struct TracedOp {
  std::string side, phase, op, provider;
  int64_t steps = 0, calls = 0;  // of the first rank
  double seconds = 0;            // of all these calls
};

// A device that is too small for a run, even without other users.
struct TooLarge {
  std::string what;                           // the need with its reason
  int64_t needs_bytes = 0, device_bytes = 0;  // of one device
};

// False for a tiny model: it says nothing about the real model's speed.
inline bool judges_speed(const Scenario& scenario) { return scenario.profile != "tiny"; }

struct RunReport {
  std::string scenario, summary, arch, profile, dtype, device, host;
  std::string driver, host_build, date;  // of the device; of this program; start in UTC
  std::string nccl;  // how NCCL may send between GPUs; empty: one rank, or no GPUs
  std::string note;  // about the profile
  std::vector<std::string> weights_notes;  // about the checkpoint
  bool random_weights = false;
  std::string room;  // differences from the scenario to fit the device
  Parallel parallel;
  uint64_t seed = 0;                 // for the weights
  int64_t max_batch = 0, pages = 0;  // limits of a session
  uint64_t requests_seed = 0;        // for the requests
  int64_t weights_bytes = 0, layers = 0;
  std::string metric;  // of all comparisons with the reference
  bool speed_judged = false;
  int processes = 1;  // timed processes of each side, in sequence, where speed is judged
  SideReport baseline;
  std::vector<SideReport> candidates;
  Unusable broken_plugins;
  std::string provider_order;  // the reason why the baseline asks its providers in this order
  std::vector<std::pair<std::string, double>> spent;  // steps of the host in seconds, in order
  std::string error;     // why the whole run ended early: baseline, oracle, or a later step
  bool spoiled = false;  // a candidate wrote to the weights; its fault
  std::optional<TooLarge> too_large;  // set if it is the reason
  double seconds = 0;
  std::vector<TracedOp> traced;      // with a trace: times of ops, which the workers report
  std::vector<Picture> pictures;     // of answers to the first request, if they are wanted
  std::optional<ClockWatch> clocks;  // of the first GPU at each progress message; nothing: no GPU

  // Fills the scenario's facts, before the run.
  void describe(const Scenario& scenario);
  // 0: all correct. 1: a candidate failed, is wrong or has spoiled the run. 3: the environment or
  // the baseline failed.
  int exit_code() const;
};

}  // namespace fk
