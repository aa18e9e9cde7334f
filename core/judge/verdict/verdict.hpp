// SPDX-License-Identifier: Apache-2.0
// A verdict on a candidate: one status per case and one for all, each with the reason, the evidence
// and the next step. verdict.cpp has a table of statuses, their order, exit codes and sentences.
// fields.hpp has the fields of the JSON (`fk-host.verdict/1`), with a sentence each.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/cases/numerics/judgement.hpp"
#include "core/judge/verdict/kernel_profile.hpp"
#include "core/measure/race_clock.hpp"
#include "core/worker/sandbox.hpp"

namespace fk {

// In order of precedence: a candidate gets the first of its cases' statuses. The four about speed
// follow from the aggregate.
enum class Status {
  compile_error,
  lint,
  load,
  cheating,
  impossible,
  illegal_access,
  crashed,
  hang,
  memory,
  violation,
  wrong,
  nondeterministic,
  graph_unsafe,
  environment,
  slower,
  cannot_tell,
  same,
  faster,
  correct,
  untestable,
  unjudged,
  refused,
  unused
};

struct StatusInfo {
  Status status;
  const char* name;     // as in the JSON and on the command line
  int exit_code;        // of a verb that ends with it; see core/cli/verb.hpp
  const char* meaning;  // one sentence
  const char* next;     // one sentence: the next step
};

// The next step after a broken rule of the ABI; empty: an unknown rule.
const char* next_of_rule(std::string_view rule);

std::span<const StatusInfo> statuses();  // all, in order of precedence
const StatusInfo& info_of(Status status);
inline const char* name_of(Status status) { return info_of(status).name; }
std::optional<Status> status_of(std::string_view name);
Status status_of(Speed speed);
// True for right answers at any speed.
bool is_right(Status status);
// True for a fault of the candidate, whatever its other cases are: each status before
// `environment`.
bool is_failure(Status status);

// The worst output of the worst call.
struct ErrorFigures {
  std::string field;    // the output
  double worst = 0;     // largest error as a share of the allowed error; below 1 is right
  std::string pattern;  // "every 4th row from row 3", one sentence
  std::string name;     // of the pattern's kind; docs/verdict.md has all of them
  std::vector<WrongAxis> axes;
  std::map<std::string, double> figures;  // of the pattern
  int64_t first_bad = -1;                 // row-major index of the first wrong element; -1: none
  double got = 0, want = 0;               // at first_bad
  int64_t wrong = 0, compared = 0;
  std::string limit;  // the error model in words
};

// Inputs of one family in one case.
struct FamilyRow {
  std::string family;  // "normal", "heavy_tail" ...
  std::string status;  // name of a status; "correct": all calls were right
  int calls = 0;       // timed ones included
  double worst = 0;    // as in ErrorFigures
};

// A mutant, which the comparison must reject before a candidate's answer is believed.
struct MutantRow {
  std::string name;  // "zeros in out", "inputs in bf16", "half of the work"
  bool rejected = false;
  double worst = 0;      // as in ErrorFigures
  std::string why = {};  // reason why it was not tried; empty: it was tried
};

// A baseline that failed before it could race.
struct PassedOver {
  std::string name, why;
};

// Unknown values are absent.
struct SideTime {
  bool captured = false;  // its calls were replays of a graph
  Timing cold;            // of one call, caches flushed
  std::optional<double> warm_s, plan_s;
  std::optional<double> clock_s;   // one call by the controller's clock; must agree with `cold`
  std::optional<double> roofline;  // least time of the device over the median
  std::optional<double> of_copy;   // time of a copy of equally many bytes over the median
  // Facts about one captured call, as its own process reads them back from the driver.
  std::optional<int64_t> launches, registers, local_bytes, shared_bytes;
  std::optional<double> occupancy;  // 0 to 1
  std::string kernel;               // the kernel of the last four values
};

// Clocks of the device during a race, from the driver; absent without NVML.
struct ClockWatch {
  int looks = 0;
  int64_t sm_mhz_low = 0, sm_mhz_high = 0, memory_mhz_low = 0, memory_mhz_high = 0;
  double throttled = 0;  // share of looks with a reason that distorts measurements
  std::string reasons;   // all that were seen, "power cap, thermal"; empty: none
};

struct TimingRow {
  std::string mode;  // "graph" or "eager"; the first of a case is judged
  SideTime candidate, baseline;
  Ratio ratio;  // of the candidate over the baseline
  int calls_per_sample = 1;
  bool settled = true;      // false: the time budget ended the race
  bool host_bound = false;  // every sample waited for the host
  double floor_s = 0;       // no honest kernel is faster; 0: unknown
  double bytes = 0, flops = 0, wire = 0;
  std::optional<ClockWatch> clocks;
};

struct CaseVerdict {
  std::string op, case_name;
  std::string size = "full";           // as in the policy
  bool beside = false;                 // not requested: judged by values only
  bool left_out = false;               // by a default verdict: not judged, for the reason in `why`
  std::string variant;                 // empty: as written
  std::string sizes;                   // "T=3 size=17 x:bf16", of the variant
  std::vector<std::string> strided;    // fields with gaps between rows
  int ranks = 1;                       // number of ranks that call the case together
  std::string routing;                 // uniform, skewed, captured; empty: the case's own
  double skew = 0;                     // the busiest expert's load over the mean; 0: no routing
  std::string captured;                // place of the recording; empty: the contract's case
  std::vector<std::string> generated;  // of a recorded case: fields with generated contents
  std::optional<double> of_uniform;    // candidate's time over its time with uniform routing
  Status status = Status::environment;
  std::string why, evidence, next;       // next: empty means the status's own sentence
  std::string rule;                      // of a violation: the broken rule
  std::string oracle, baseline;          // plugins; empty: none
  std::string contract_hash, case_hash;  // SHA-256 of the op's file; of the case's content
  std::optional<ErrorFigures> errors;
  std::vector<FamilyRow> families;
  std::vector<MutantRow> nulls;
  std::vector<PassedOver> passed_over;  // failed before `baseline` was chosen; without refusals
  std::vector<TimingRow> timings;
};

// Over the timed cases. The interval covers the measurements, not other cases.
struct Aggregate {
  Ratio ratio;  // geometric mean; blocks: of all cases
  int cases = 0, right = 0, faster = 0, same = 0, slower = 0, cannot_tell = 0, failed = 0,
      refused = 0, not_judged = 0;
  int beside = 0;    // smaller cases; in `failed` if they failed
  int left_out = 0;  // not in `cases`
};

// Other settings that a verdict depends on.
struct Policy {
  std::string size = "full";
  std::vector<std::string> cases, families;  // empty: all
  double seconds = 1;                        // per case, about
  int threads = 2;                           // threads that a CPU provider may use
  std::vector<std::string> ops;              // empty: all that the candidate has
  double patience_s = 20;                    // seconds without a sign of life
  bool sandbox = true;                       // the candidate is sealed in, as far as the kernel can
  std::string captured;                      // folder of recorded cases; empty: the contracts'
  std::string routing;                       // as --routing; empty: the cases' own
  std::vector<std::string> variants, dtypes;  // in addition to cases as written
  double budget_s = 1800;                     // for the whole verdict; 0: no limit
  bool thorough = false;                      // false: slow cases may be left out
};

struct PluginFacts {
  std::string name, version, path, sha256;
};

struct PhaseTime {
  std::string what;
  double seconds = 0;
};

struct Verdict {
  PluginFacts candidate;
  std::vector<PluginFacts> baselines;
  Status status = Status::environment;
  std::string why, evidence, next;
  Aggregate aggregate;
  std::vector<CaseVerdict> cases;
  Policy policy;
  std::string device, driver, host, host_version, host_build;
  std::string secret, commitment;  // seeds: hex, and its SHA-256 from before the first call
  std::vector<Protection> protections;
  std::string log;   // output of the worker and the compiler
  std::string time;  // begin, "2026-01-31T12:00:00Z"
  double seconds = 0;
  std::vector<PhaseTime> spent;  // steps of the judge, in order
  bool stored = false;           // answered from the store
  std::string receipt;           // id; empty: none was kept
  // why the file differs from a build of the sources beside it; empty: it does not
  std::string stale;
  // the words of Nsight Compute, or the reason for their absence; empty: not requested
  std::string profile;
  std::vector<KernelProfile> kernels;  // of the profiled call, in the order of their launches
  int exit_code() const { return info_of(status).exit_code; }
};

inline constexpr const char* kVerdictSchema = "fk-host.verdict/1";

// Geometric mean, its interval and the counts.
Aggregate aggregate_of(std::span<const CaseVerdict> cases);
// Fills aggregate and status of the whole. Fills empty why, evidence and next, in the cases and the
// whole. A verdict without cases keeps its status and why.
void conclude(Verdict& verdict);
// Names a status or sum that does not follow from its figures; empty: all follow. A
// verdict from conclude() is consistent; one that was edited to look better is not.
std::string contradiction(const Verdict& verdict);

Json to_json(const Verdict& verdict);
// Error with place and problem: another schema, a value of a wrong type. Unknown fields are
// ignored; missing ones keep their defaults.
Verdict verdict_from(const Json& json, const std::string& name);
// The JSON Schema of what to_json() writes.
Json verdict_schema();

}  // namespace fk
