// SPDX-License-Identifier: Apache-2.0
// What the referee says about a candidate: one status per case and one for all, each with why, the
// evidence and what to look at next. The statuses, their order, exit codes and sentences are a
// table in verdict.cpp; the fields of the JSON (`fk-host.verdict/1`), with a sentence each, are in
// fields.hpp, from which it is written, read and described.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/measure/race_clock.hpp"
#include "core/worker/sandbox.hpp"

namespace fk {

// In order of precedence: of several, the first is the one that the candidate gets, but for the
// four about speed, which follow from the aggregate.
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
  int exit_code;        // of a verb that ends with it; core/cli/verb.hpp says what they mean
  const char* meaning;  // one sentence
  const char* next;     // one sentence: what to look at next
};

// What to look at next where a rule of the ABI is broken; empty of one that is not known.
const char* next_of_rule(std::string_view rule);

std::span<const StatusInfo> statuses();  // all, in order of precedence
const StatusInfo& info_of(Status status);
inline const char* name_of(Status status) { return info_of(status).name; }
std::optional<Status> status_of(std::string_view name);
Status status_of(Speed speed);
// Right, whatever its time is.
bool is_right(Status status);
// The candidate is at fault, whatever its other cases say: every status before `environment`.
bool is_failure(Status status);

// The worst output of the worst call.
struct ErrorFigures {
  std::string field;         // the output
  double worst = 0;          // largest error as a share of what is allowed; below 1 is right
  std::string pattern;       // "every 4th row from row 3", one sentence
  int64_t first_bad = -1;    // row-major index of the first wrong element; -1: none
  double got = 0, want = 0;  // there
  int64_t wrong = 0, compared = 0;
  std::string limit;  // the error model in words
};

// Inputs of one kind in one case.
struct FamilyRow {
  std::string family;  // "normal", "heavy_tail" ...
  std::string status;  // name of a status; "correct" when all calls were right
  int calls = 0;       // timed ones included
  double worst = 0;    // as in ErrorFigures
};

// A wrong answer that must be rejected before a candidate's is believed.
struct MutantRow {
  std::string name;  // "zeros", "half of the work" ...
  bool rejected = false;
  double worst = 0;      // as in ErrorFigures
  std::string why = {};  // it was not tried; empty: it was
};

// A baseline that would have been raced, had it not failed itself.
struct PassedOver {
  std::string name, why;
};

// What is not known is absent.
struct SideTime {
  bool captured = false;  // its calls were replays of a graph
  Timing cold;            // of one call, caches flushed
  std::optional<double> warm_s, plan_s;
  std::optional<double> clock_s;   // of one call by the broker's clock: it must agree with `cold`
  std::optional<double> roofline;  // least time of the device over the median
  std::optional<double> of_copy;   // time of a copy of as many bytes over the median
  // Of one captured call, as its own process reads it back from the driver.
  std::optional<int64_t> launches, registers, local_bytes, shared_bytes;
  std::optional<double> occupancy;  // 0 to 1
  std::string kernel;               // of which the last four are
};

// What the driver said about the device's clocks during a race; absent where there is no NVML.
struct ClockWatch {
  int looks = 0;
  int64_t sm_mhz_low = 0, sm_mhz_high = 0, memory_mhz_low = 0, memory_mhz_high = 0;
  double throttled = 0;  // share of the looks with a reason that changes what is measured
  std::string reasons;   // all that were seen, "power cap, thermal"; empty: none
};

struct TimingRow {
  std::string mode;  // "graph" or "eager"; the first of a case is judged
  SideTime candidate, baseline;
  Ratio ratio;  // of the candidate over the baseline
  int calls_per_sample = 1;
  bool settled = true;      // false: the time budget ended the race
  bool host_bound = false;  // every sample waited for the host
  double floor_s = 0;       // no honest kernel is below this; 0: not known
  double bytes = 0, flops = 0, wire = 0;
  std::optional<ClockWatch> clocks;
};

struct CaseVerdict {
  std::string op, case_name;
  std::string size = "full";           // as in the policy
  bool beside = false;                 // not what was asked for: its values alone are judged
  bool left_out = false;               // of a default verdict: not judged, for the reason in `why`
  std::string variant;                 // empty: as written
  std::string sizes;                   // "T=3 size=17 x:bf16", of the variant
  int ranks = 1;                       // that call it together
  std::string routing;                 // uniform, skewed, captured; empty: the case's own
  double skew = 0;                     // the busiest expert's load over the mean; 0: no routing
  std::string captured;                // where the case was recorded; empty: the contract's
  std::vector<std::string> generated;  // of a recorded case: fields with made-up contents
  std::optional<double> of_uniform;    // candidate's time over that with uniform routing
  Status status = Status::environment;
  std::string why, evidence, next;       // next: empty stands for the status's own sentence
  std::string rule;                      // of a violation
  std::string oracle, baseline;          // plugins; empty: none
  std::string contract_hash, case_hash;  // SHA-256 of the op's file; of the case's content
  std::optional<ErrorFigures> errors;
  std::vector<FamilyRow> families;
  std::vector<MutantRow> nulls;
  std::vector<PassedOver> passed_over;  // on the way to `baseline`; not those that refused
  std::vector<TimingRow> timings;
};

// Over the cases that were timed. The interval is that of the measurements: it does not say what
// other cases would give.
struct Aggregate {
  Ratio ratio;  // geometric mean; blocks: of all cases
  int cases = 0, right = 0, faster = 0, same = 0, slower = 0, cannot_tell = 0, failed = 0,
      refused = 0, not_judged = 0;
  int beside = 0;    // cases beside these, which are in `failed` where they failed
  int left_out = 0;  // not in `cases`
};

// What else a verdict depends on.
struct Policy {
  std::string size = "full";
  std::vector<std::string> cases, families;   // empty: all
  double seconds = 1;                         // per case, about
  int threads = 2;                            // that a CPU provider may use
  std::vector<std::string> ops;               // empty: all that the candidate has
  double patience_s = 20;                     // without a sign of life
  bool sandbox = true;                        // the candidate is sealed in, where the kernel can
  std::string captured;                       // folder of recorded cases; empty: the contracts'
  std::string routing;                        // as --routing; empty: the cases' own
  std::vector<std::string> variants, dtypes;  // beside the cases as written
  double budget_s = 1800;                     // of the whole verdict; 0: without end
  bool thorough = false;                      // nothing is left out for the sake of time
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
  std::string log;   // what the runner and the compiler printed
  std::string time;  // when it began, "2026-01-31T12:00:00Z"
  double seconds = 0;
  std::vector<PhaseTime> spent;  // what the judge did, in that order
  bool stored = false;           // answered from the store
  std::string receipt;           // id; empty: none was kept
  std::string stale;    // why the file is not what the sources beside it make, as they are now
  std::string profile;  // of Nsight Compute, or why there is none; empty: not asked for
  int exit_code() const { return info_of(status).exit_code; }
};

inline constexpr const char* kVerdictSchema = "fk-host.verdict/1";

// Geometric mean, its interval and the counts.
Aggregate aggregate_of(std::span<const CaseVerdict> cases);
// Fills aggregate, status, and where they are empty why, evidence and next, of the cases and of
// the whole. A verdict without cases keeps its status and why: it was reached before any case.
void conclude(Verdict& verdict);
// Which status or sum does not follow from the figures beside it, in words; empty: all do. So it is
// of every verdict that was concluded, and of none that somebody wrote better than it was.
std::string contradiction(const Verdict& verdict);

Json to_json(const Verdict& verdict);
// Error with where and what: another schema, a value of a wrong type. A field that is not known is
// passed over, one that is missing stays at its default.
Verdict verdict_from(const Json& json, const std::string& name);
// The JSON Schema of what to_json() writes.
Json verdict_schema();

}  // namespace fk
