// SPDX-License-Identifier: Apache-2.0
// The tasks of a judgement (core/cli/case_tasks.cpp), with their answers. The judge gives some to
// the oracle's process, and some to a process that runs a provider. Cases stay open between tasks,
// by number.
#pragma once
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "core/device/launch_facts.hpp"
#include "core/judge/mutation_test.hpp"
#include "core/judge/plan/asked_case.hpp"
#include "core/judge/rank_buffers.hpp"
#include "core/judge/verdict/fields.hpp"
#include "core/worker/task.hpp"

namespace fk {

template <class Visitor>
void fields(Visitor& v, WrongElements& w) {
  v("limit", w.limit);
  v("count", w.count);
  v("compared", w.compared);
  v("first", w.first);
  v("got", w.got);
  v("want", w.want);
  v("pattern", w.pattern);
  v("next", w.next);
  v("name", w.name);
  v("axes", w.axes);
  v("figures", w.figures);
}

// The content and the set are the asker's.
template <class Visitor>
void fields(Visitor& v, SetFinding& f) {
  v("ok", f.ok);
  v("rule", f.rule);
  v("text", f.text);
  v("worst", f.worst);
  v("field", f.field);
  v("wrong", f.wrong);
  v("stale", f.stale);
  v("changed", f.changed);
  v("undecided", f.undecided);
}

template <class Visitor>
void fields(Visitor& v, LaunchFacts& f) {
  v("launches", f.launches);
  v("kernel", f.kernel);
  v("registers", f.registers);
  v("local_bytes", f.local_bytes);
  v("shared_bytes", f.shared_bytes);
  v("of_library", f.of_library);
  v("occupancy", f.occupancy);
}

// JSON has no infinity, which is the error of what is no number.
inline double error_from(double worst) { return std::isnan(worst) ? HUGE_VAL : worst; }

// ---- any process ----

// Opens the device, before there is anything to do. The answer is the device's name.
struct CaseEnter {
  static constexpr const char* kName = "case_enter";
  using Answer = std::string;
  std::string device;
  FK_FIELDS(device)
};

struct CaseClose {
  static constexpr const char* kName = "case_close";
  using Answer = Nothing;
  int case_run = -1;
  FK_FIELDS(case_run)
};

// ---- the oracle ----

struct CaseOpened {
  struct LeftOut {
    std::string family, why;
    FK_FIELDS(family, why)
  };
  std::string unjudged;  // why there are no answers; empty: there are
  std::string oracle;
  int sets = 0;
  int64_t read_bytes = 0, written_bytes = 0;  // of all sets of a rank
  std::vector<std::string> families = {};     // by content
  int versions = 1, calls_most = 1;           // as of an OracleServer
  std::vector<LeftOut> left_out = {};
  std::vector<MutantRow> nulls;
  double skew = 0;
  std::vector<std::string> generated;
  bool known = false;
  double bytes = 0, flops = 0, wire = 0;
  bool own_devices = false;  // no ranks share one
  double roofline_s = 0, floor_s = 0;
  bool plan = false;
  FK_FIELDS(unjudged, oracle, sets, read_bytes, written_bytes, families, versions, calls_most,
            left_out, nulls, skew, generated, known, bytes, flops, wire, own_devices, roofline_s,
            floor_s, plan)
};

// The descriptors of its memory come with the answer.
struct CaseOpen {
  static constexpr const char* kName = "case_open";
  using Answer = CaseOpened;
  int case_run = -1;
  AskedCase asked;
  std::string device;
  int threads = 0;
  std::vector<std::string> families;
  uint64_t seed = 0;
  double seconds = 0;  // for answers
  bool every_family = false;
  double call_s = 0;  // of one call on each set, about; 0: nobody is timed
  FK_FIELDS(case_run, asked, device, threads, families, seed, seconds, every_family, call_s)
};

// As OracleServer::deal, and then flush() or flush_all().
struct CaseDeal {
  static constexpr const char* kName = "case_deal";
  using Answer = Nothing;
  int case_run = -1;
  std::vector<int> sets = {}, contents = {};
  bool poison = false;  // random; else ones
  bool numbers_only = false, flush = false, flush_all = false;
  int beside = -1, beside_content = 0;
  FK_FIELDS(case_run, sets, contents, poison, numbers_only, flush, flush_all, beside,
            beside_content)
};

struct CaseRenew {
  static constexpr const char* kName = "case_renew";
  using Answer = Nothing;
  int case_run = -1, from = 0;
  uint64_t seed = 0;
  FK_FIELDS(case_run, from, seed)
};

// The answer is what was written around tensors of any set; empty: nothing.
struct CaseDamage {
  static constexpr const char* kName = "case_mutants";
  using Answer = std::string;
  int case_run = -1;
  FK_FIELDS(case_run)
};

// Seconds of a copy of as many bytes as a call moves, on the first rank's device; 0: no memory.
struct CaseCopy {
  static constexpr const char* kName = "case_copy";
  using Answer = double;
  int case_run = -1, calls = 0, threads = 0;
  FK_FIELDS(case_run, calls, threads)
};

// As OracleServer::wait_for_turns, for which the sign is given.
struct CaseTurn {
  static constexpr const char* kName = "case_turn";
  using Answer = Nothing;
  int case_run = -1;
  std::vector<int> sets;
  FK_FIELDS(case_run, sets)
};

// A set with something to say, by its place in the list.
struct CaseFinding {
  std::size_t at = 0;
  SetFinding finding;
  FK_FIELDS(at, finding)
};
struct CaseLook {
  static constexpr const char* kName = "case_look";
  using Answer = std::vector<CaseFinding>;
  int case_run = -1;
  std::vector<int> sets;
  int side = 0;
  bool words = true;  // false: without patterns, which is quicker
  FK_FIELDS(case_run, sets, side, words)
};

// ---- a provider's process; it is not trusted ----

// A plugin's refusal or failure is an answer: the process lives on.
struct NotDone {
  std::string why;
  bool echo = false;  // another rank had failed before
  bool lost = false;  // a device of this process is lost
  FK_FIELDS(why, echo, lost)
};
template <class T>
struct Attempt {
  using Value = T;
  std::optional<NotDone> failed;
  std::optional<T> answer;
  FK_FIELDS(failed, answer)
};

// Asks supports() alone.
struct CaseTakes {
  static constexpr const char* kName = "case_takes";
  using Answer = Attempt<Nothing>;
  std::string plugin;
  AskedCase asked;
  std::string device;
  FK_FIELDS(plugin, asked, device)
};

struct CaseBegun {
  bool deterministic = false;
  bool keeps = false;  // as of a CandidateServer
  int64_t given = 0;   // bytes that its instances have asked for
  FK_FIELDS(deterministic, keeps, given)
};
// The two descriptors of the oracle's memory come with it.
struct CaseBegin {
  static constexpr const char* kName = "case_begin";
  using Answer = Attempt<CaseBegun>;
  std::string plugin = {};
  int case_run = -1;
  AskedCase asked;
  std::string device;
  int threads = 0, sets = 0;
  int64_t read_bytes = 0, written_bytes = 0;
  FK_FIELDS(plugin, case_run, asked, device, threads, sets, read_bytes, written_bytes)
};

// Makes ready; the answer is the seconds of plan().
struct CaseArm {
  static constexpr const char* kName = "case_arm";
  using Answer = Attempt<double>;
  int case_run = -1;
  bool plan = false;
  std::vector<int> sets;  // for plan()
  int first = 0, count = 0;
  bool all = false, once = false;  // as CandidateServer::ready(), and call_once()
  FK_FIELDS(case_run, plan, sets, first, count, all, once)
};

// Seconds on the clock that all ranks of a machine share.
struct CallSpan {
  double begin_s = 0, end_s = 0;
  FK_FIELDS(begin_s, end_s)
};
struct CallClaim {
  double call_s = 0;  // of one call
  bool captured = false, late = false;
  std::optional<CallSpan> span;
  std::optional<LaunchFacts> facts;
  FK_FIELDS(call_s, captured, late, span, facts)
};
struct CaseCalls {
  static constexpr const char* kName = "case_calls";
  using Answer = Attempt<CallClaim>;
  int case_run = -1, first = 0, count = 0, core = -1;
  bool warm = false, eager = false;
  FK_FIELDS(case_run, first, count, core, warm, eager)
};

// The first smoke case that the plugin takes, by the rules of `check` beside values.
struct CaseConformed {
  std::string case_name, rule, text;  // rule: empty when all were kept
  bool echo = false;
  FK_FIELDS(case_name, rule, text, echo)
};
struct CaseConformance {
  static constexpr const char* kName = "case_conformance";
  using Answer = Attempt<CaseConformed>;
  std::string op = {}, plugin = {}, device = {};
  int threads = 0;
  uint64_t seed = 0;
  FK_FIELDS(op, plugin, device, threads, seed)
};

}  // namespace fk
