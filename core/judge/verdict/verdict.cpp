// SPDX-License-Identifier: Apache-2.0
#include "core/judge/verdict/verdict.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/cases/patterns/pattern.hpp"

namespace fk {

namespace {

constexpr double kBand = 0.01;  // as in RaceOptions
constexpr const char* kOnlyStrided = "wrong only where rows are strided: ";

// Exit codes: 0 success, 1 the candidate failed, 3 no answer about it.
constexpr std::array kStatuses = {
    StatusInfo{Status::compile_error, "compile_error", 1, "the sources do not compile",
               "Mend the compiler's first error; `fk-host build` prints it alone."},
    StatusInfo{Status::lint, "lint", 1, "the file breaks a rule of the lint; nothing was run",
               "Link with the flags of `fk-host build`, or mend the named rule."},
    StatusInfo{Status::load, "load", 1, "the file does not load, or was built for other contracts",
               "Build it again with this host's headers; `fk-host show OP` prints the contract."},
    StatusInfo{Status::cheating, "cheating", 1, "the evidence has no honest explanation",
               "Read the evidence. Each call must compute its outputs from its own inputs, on "
               "ctx->stream."},
    StatusInfo{Status::impossible, "impossible", 1,
               "the time is below the device's minimum for the bytes and operations",
               "Look for skipped work, for work before or after the timed interval, and for work "
               "on another stream."},
    StatusInfo{Status::illegal_access, "illegal_access", 1,
               "the call touched memory that it does not own",
               "Check indices at the ends of the named tensor, tails of tiles first; on a GPU run "
               "compute-sanitizer on the case."},
    StatusInfo{Status::crashed, "crashed", 1, "the process died or an exception left the plugin",
               "Start at your topmost function in the trace. Functions have names unless the file "
               "is stripped."},
    StatusInfo{Status::hang, "hang", 1, "no sign of life for --patience seconds",
               "Look for a loop or barrier that never ends for this shape, and for a wait without "
               "a matching signal."},
    StatusInfo{Status::memory, "memory", 1, "the plugin took more memory than its limit",
               "Ask for scratch in supports() (need.scratch) in place of allocations. Free "
               "create()'s memory in destroy()."},
    StatusInfo{Status::violation, "violation", 1, "a rule of the ABI was broken",
               "docs/abi.md explains the ABI; `fk-host check` tries its rules with variants."},
    StatusInfo{Status::wrong, "wrong", 1, "errors are larger than rounding explains",
               "Begin with the smallest failing case (--case). In the pattern, rows or columns at "
               "an end point to a tail, and a factor to a scale."},
    StatusInfo{Status::nondeterministic, "nondeterministic", 1,
               "two calls with equal inputs gave different outputs; the plugin claims equal bits",
               "Look for atomics on floats, missing barriers, and reads of unwritten memory. Or "
               "drop the claim."},
    StatusInfo{Status::graph_unsafe, "graph_unsafe", 1,
               "a captured call gives another result than an eager call",
               "In forward(), read no host data, allocate nothing, and keep values that change "
               "between replays in tensors. Or drop the claim."},
    StatusInfo{Status::environment, "environment", 3,
               "the host, the oracle or the baseline failed; the candidate was not judged",
               "Mend the named failure and run again. The candidate is not at fault."},
    StatusInfo{
        Status::slower, "slower", 0, "right, and slower than the baseline",
        "Compare roofline share and launches with the baseline's. The larger gap costs the time."},
    StatusInfo{Status::cannot_tell, "cannot_tell", 0, "right, and noise hides the difference",
               "The interval contains 1. Use more time (--seconds) or a quieter machine."},
    StatusInfo{Status::same, "same", 0, "right, and within 1 % of the baseline",
               "There is no gain yet. The share of the roofline shows the room for gains."},
    StatusInfo{Status::faster, "faster", 0, "right, and faster than the baseline",
               "Run it in a whole model next: `fk-host run SCENARIO`."},
    StatusInfo{Status::correct, "correct", 0, "right; its time was not compared",
               "`why` has the reason: no baseline but the oracle, a meaningless time, or no timing "
               "requested."},
    StatusInfo{Status::untestable, "untestable", 3,
               "a known wrong answer passes this case's comparison, so a pass means nothing",
               "Change the case: its inputs or its tolerance. The candidate is not at fault."},
    StatusInfo{Status::unjudged, "unjudged", 3, "there is no reference for the case",
               "Choose a smaller case, or build the oracle for this device."},
    StatusInfo{Status::refused, "refused", 1, "the candidate does not take the case",
               "`why` has its reason. Widen supports(), or ask for cases that it takes (--case)."},
    StatusInfo{Status::unused, "unused", 0, "no call reached the candidate",
               "Ask for an op and cases of the plugin: `fk-host list plugins` lists them."}};

struct RuleNext {
  const char *rule, *next;
};

constexpr const char* kTaken =
    "supports() took this case. Refuse it there with a reason, or mend the named function.";
constexpr std::array kRules = {
    RuleNext{"supports",
             "supports() must give the same answer each time, read no tensor data, and ask for 0 "
             "to 2^46 bytes."},
    RuleNext{"create", kTaken},
    RuleNext{"prepare", kTaken},
    RuleNext{"plan",
             "plan() must work for every case that supports() takes, and for all equal instances. "
             "Put all of its results into the blob."},
    RuleNext{"forward", kTaken},
    RuleNext{"input", "The tensor is an input. Write to outputs and scratch alone."},
    RuleNext{"frame",
             "The arguments of forward() belong to the host. Copy a struct before you change it."},
    RuleNext{"guard",
             "Memory beside a buffer was written. Check the index at its end, or ask for more in "
             "supports() (need.scratch for the memory of a call)."},
    RuleNext{"footprint",
             "Write only the elements that the contract names. Check the index, and rows with gaps "
             "between them."},
    RuleNext{"unwritten",
             "Elements keep their old content. Check the tail that fills no vector or tile, and "
             "early returns. Write all elements for every shape."},
    RuleNext{"scratch",
             "The content of scratch is undefined when a call begins. Write before you read."},
    RuleNext{"packed", "Write packed memory in prepare() alone, from init and weights alone."},
    RuleNext{"batch_invariant",
             "A row's bits depend on other rows. Sum in the same order for every batch, or drop "
             "the claim."},
    RuleNext{"state",
             "Leave the process and the thread as they were: modes, handlers, environment, "
             "directory, descriptors, current device."},
    RuleNext{"leak",
             "Free in destroy() all memory of create() and prepare(). Take none in forward()."},
    RuleNext{"threads", "Threads must be idle when forward() returns. Wait for them in forward()."},
    RuleNext{"thread", "A call may come from any thread: keep nothing in thread_local."},
    RuleNext{"instances",
             "Instances run at the same time. Keep changing state in the instance or in persistent "
             "memory, not in static variables."},
    RuleNext{"reset", "reset() must restore all state that calls keep, as after prepare()."},
    RuleNext{"stream", "Enqueue all work on ctx->stream, and join every other stream to it."},
    RuleNext{"waits", "forward() only enqueues: no synchronisation, no allocation, no release."},
    RuleNext{"replicated",
             "All ranks must have the same bits: add up in the order of the ranks on "
             "every one of them."},
    RuleNext{"sandbox",
             "A candidate computes and nothing else: no files, sockets, processes or "
             "signals."}};

bool is_speed(Status status) {
  return status == Status::slower || status == Status::cannot_tell || status == Status::same ||
         status == Status::faster;
}

std::string count_text(int count, const char* what) {
  return count ? std::to_string(count) + " " + what : std::string();
}

// Example: "of 5 cases 3 faster, 1 same, 1 not compared".
std::string why_of(const Aggregate& a) {
  std::string list;
  const int compared = a.faster + a.same + a.slower + a.cannot_tell;
  for (const auto& part :
       {count_text(a.faster, "faster"), count_text(a.same, "same"), count_text(a.slower, "slower"),
        count_text(a.cannot_tell, "cannot be told"),
        count_text(compared ? a.right - compared : 0, "right and not compared"),
        count_text(a.refused, "refused"), count_text(a.not_judged, "not judged")})
    if (!part.empty()) list += (list.empty() ? "" : ", ") + part;
  if (list.empty()) return list;
  if (a.beside && !a.failed) list += "; " + std::to_string(a.beside) + " more right";
  if (a.left_out) list += "; " + std::to_string(a.left_out) + " left out (--thorough)";
  return "of " + std::to_string(a.cases) + (a.cases == 1 ? " case " : " cases ") + list;
}

// Examples: "smoke1 (T=3 size=17)", "decode of smoke cases (T=1 heads=8)".
std::string named(const CaseVerdict& c) {
  return c.case_name + (c.beside ? " of " + c.size + " cases" : "") +
         (c.variant.empty() ? "" : ", " + c.variant) +
         (c.sizes.empty() ? "" : " (" + c.sizes + ")");
}

// Example: "; right: smoke0 (T=5 size=32)". If only some sizes fail, they point to the cause.
std::string right_beside(const Verdict& v, const CaseVerdict& failed) {
  constexpr int kMost = 3;
  if (!is_failure(failed.status)) return "";
  std::string out;
  int right = 0;
  for (const CaseVerdict& c : v.cases)
    if (c.op == failed.op && is_right(c.status) && ++right <= kMost)
      out += (right == 1 ? "; right: " : ", ") + named(c);
  return right > kMost ? out + " and " + std::to_string(right - kMost) + " more" : out;
}

// Gaps between rows as the cause of a wrong case, by all cases of its op. They are `told` if a
// right case has no gaps. They are `refuted` by a wrong case without gaps, and by a right one with
// gaps in all the fields of the wrong one.
struct GapEvidence {
  bool told = false, refuted = false;
};

GapEvidence evidence_of_gaps(const std::vector<CaseVerdict>& cases, const CaseVerdict& wrong) {
  GapEvidence out;
  const auto also = [](const CaseVerdict& other) {
    return [&](const std::string& field) { return contains(other.strided, field); };
  };
  for (const CaseVerdict& other : cases) {
    if (other.op != wrong.op) continue;
    if (is_right(other.status)) {
      out.told |= other.strided.empty();
      out.refuted |= std::ranges::all_of(wrong.strided, also(other));
    }
    out.refuted |= other.status == Status::wrong && other.strided.empty();
  }
  return out;
}

// Gaps between rows hold NaN. They were read if only cases with gaps are wrong, and these give NaN
// or have a right row 0 alone.
void name_read_gaps(std::vector<CaseVerdict>& cases) {
  const auto replace = [](CaseVerdict& c, const char* name, std::string pattern) {
    const std::string before = c.errors->pattern;
    c.errors->name = name;
    c.errors->pattern = std::move(pattern);
    if (const auto at = c.why.find(before); at != std::string::npos)
      c.why.replace(at, before.size(), c.errors->pattern);
  };
  const auto read = [](const CaseVerdict& c) {
    return c.errors && (c.errors->name == "nan" || c.errors->name == "unwritten" ||
                        c.errors->name == "strided");
  };
  for (CaseVerdict& wrong : cases) {
    if (wrong.status != Status::wrong || !wrong.errors) continue;
    const GapEvidence gaps = evidence_of_gaps(cases, wrong);
    const bool all = std::ranges::all_of(cases, [&](const CaseVerdict& other) {
      return other.op != wrong.op || other.status != Status::wrong || read(other);
    });
    const std::string fields = join(wrong.strided, ", ");
    if (gaps.told && !gaps.refuted && all) {
      if (starts_with(wrong.errors->pattern, kOnlyStrided)) continue;
      if (wrong.errors->name == "strided") {  // it knows the field
        replace(wrong, "strided", kOnlyStrided + wrong.errors->pattern);
        continue;
      }
      replace(wrong, "strided", kOnlyStrided + ("in cases with gaps in " + fields));
      wrong.next = "Compute addresses from strides in each of " + fields +
                   ". Only the last axis of a tensor is dense.";
    } else if (gaps.refuted && wrong.errors->name == "strided") {
      replace(wrong, "rows_or_columns", "row 0 alone is right");
      wrong.errors->figures.clear();
      wrong.next = info_of(Status::wrong).next;
    }
  }
}

// Largest error of a wrong case, as a share of the allowed error; no number is more than any.
double error_of_case(const CaseVerdict& c) {
  if (c.status != Status::wrong || !c.errors) return 0;
  return std::isnan(c.errors->worst) ? HUGE_VAL : c.errors->worst;
}

// An unjudged case of an op without any judged case; null: there is no such op. The results of
// other ops must not hide it.
const CaseVerdict* unjudged_op(const std::vector<CaseVerdict>& cases) {
  const auto counts = [](const CaseVerdict& c) { return !c.beside && !c.left_out; };
  for (const auto& c : cases) {
    if (!counts(c) || c.status != Status::unjudged) continue;
    if (std::ranges::none_of(cases, [&](const CaseVerdict& other) {
          return counts(other) && other.op == c.op &&
                 (is_right(other.status) || other.status == Status::untestable);
        }))
      return &c;
  }
  return nullptr;
}

// Votes of wrong cases for the name of their pattern, with its surety cubed: one cause counts as
// much as three or four common traits. The largest error alone would give one fault another `next`
// in each run.
std::map<std::string, double> votes_for_patterns(const std::vector<CaseVerdict>& cases) {
  std::map<std::string, double> sureties, votes;
  for (const PatternKind& kind : pattern_kinds())
    sureties[kind.name] = std::max(sureties[kind.name], kind.surety);
  for (const CaseVerdict& c : cases)
    if (c.status == Status::wrong && c.errors)
      votes[c.errors->name] += std::pow(sureties[c.errors->name], 3);
  return votes;
}

// The status of the whole, and the case with that status; null: it follows from the aggregate.
// Among wrong cases those of the pattern with most votes speak, and of these the one with the
// largest error, because it shows most.
Status overall(const Verdict& v, const CaseVerdict*& speaker) {
  // A case that was not asked for counts only if it fails.
  const auto rank = [](const CaseVerdict& c) {
    return c.left_out || (c.beside && is_right(c.status)) ? static_cast<int>(Status::unused) + 1
                                                          : static_cast<int>(c.status);
  };
  const auto votes = votes_for_patterns(v.cases);
  const auto votes_of = [&](const CaseVerdict& c) {
    return c.status == Status::wrong && c.errors ? votes.at(c.errors->name) : 0;
  };
  const auto order = [&](const CaseVerdict& c) {
    return std::tuple(rank(c), -votes_of(c), -error_of_case(c));
  };
  const auto first = std::ranges::min_element(v.cases, {}, order);
  speaker = &*first;
  if (first->status <= Status::environment) return first->status;
  if (const CaseVerdict* unjudged = unjudged_op(v.cases)) {
    speaker = unjudged;
    return Status::unjudged;
  }
  if (!is_speed(first->status)) return first->status;
  if (v.aggregate.ratio.value <= 0) return first->status;
  if (v.aggregate.cases > 1) speaker = nullptr;
  return status_of(v.aggregate.ratio.speed);
}

}  // namespace

std::span<const StatusInfo> statuses() { return kStatuses; }

const char* next_of_rule(std::string_view rule) {
  for (const RuleNext& known : kRules)
    if (rule == known.rule) return known.next;
  return "";
}

const StatusInfo& info_of(Status status) {
  const StatusInfo& info = kStatuses[static_cast<size_t>(status)];
  FK_CHECK(info.status == status, "the table of statuses is not in the enum's order");
  return info;
}

std::optional<Status> status_of(std::string_view name) {
  for (const auto& info : kStatuses)
    if (name == info.name) return info.status;
  return std::nullopt;
}

Status status_of(Speed speed) {
  switch (speed) {
    case Speed::faster:
      return Status::faster;
    case Speed::same:
      return Status::same;
    case Speed::slower:
      return Status::slower;
    case Speed::unknown:
      break;
  }
  return Status::cannot_tell;
}

bool is_right(Status status) { return is_speed(status) || status == Status::correct; }

bool is_failure(Status status) { return status < Status::environment; }

namespace {

// Sums over cases, of logarithms. Errors of different cases are independent, so their squares add
// up. A penalty is the same in all cases, so the mean does not reduce it.
struct Sum {
  double values = 0, squares = 0, penalties = 0;
  void add(const Ratio& r) {
    const double value = std::log(r.value);
    // The measured value is the middle of its interval; penalties lower the lower end.
    const double error = std::log(r.high) - value;
    values += value;
    squares += error * error;
    penalties += std::max(0.0, value - std::log(r.low) - error);
  }
  double low() const { return values - std::sqrt(squares) - penalties; }
  double high() const { return values + std::sqrt(squares); }
};

}  // namespace

Aggregate aggregate_of(std::span<const CaseVerdict> cases) {
  Aggregate out;
  Sum all, told;
  int timed = 0, blocks = 0;
  bool sure = true;
  for (const auto& c : cases) {
    out.beside += c.beside && !c.left_out;
    if (c.left_out) ++out.left_out;
    if (c.beside || c.left_out) {
      out.failed += is_failure(c.status);
      continue;
    }
    ++out.cases;
    out.right += is_right(c.status);
    out.faster += c.status == Status::faster;
    out.same += c.status == Status::same;
    out.slower += c.status == Status::slower;
    out.cannot_tell += c.status == Status::cannot_tell;
    out.failed += is_failure(c.status);
    out.refused += c.status == Status::refused || c.status == Status::unused;
    out.not_judged += c.status == Status::untestable || c.status == Status::unjudged ||
                      c.status == Status::environment;
    if (!is_speed(c.status) || c.timings.empty()) continue;
    const Ratio& r = c.timings.front().ratio;
    if (!(r.value > 0 && r.low > 0 && r.high > 0)) continue;
    all.add(r);
    if (r.speed != Speed::unknown || r.value < 1) told.add(r);
    blocks += r.blocks;
    sure &= r.low < r.high;  // too few blocks have no interval
    ++timed;
  }
  if (!timed) return out;
  // `cannot tell` cases have no penalties. Many of them together are not faster: the lower end is
  // at most that of equal times.
  out.ratio.value = std::exp(all.values / timed);
  out.ratio.low = std::exp(std::min(all.low(), told.low()) / timed);
  out.ratio.high = std::exp(all.high() / timed);
  out.ratio.blocks = blocks;
  out.ratio.speed = sure ? speed_of(out.ratio.low, out.ratio.high, kBand) : Speed::unknown;
  return out;
}

namespace {

// The next step where a status' own does not fit. A CPU has no roofline: a copy is the measure.
std::string next_here(const CaseVerdict& c, bool on_cpu) {
  if (c.status == Status::unjudged && c.why.starts_with("no reference provider implements"))
    return "A plugin with a name of the form reference.NAME judges the op: see `Own ops` in "
           "docs/package_a_baseline.md.";
  if (!on_cpu || c.timings.empty()) return "";
  if (c.status == Status::slower)
    return "Compare `of copy` with the baseline's. On a CPU most gains are vectors (`march: "
           "native` in candidate.yaml) and a thread for each core (OpenMP).";
  if (c.status == Status::same)
    return "There is no gain yet. A copy of the bytes has 100 % in `of copy`: the rest is room "
           "for gains.";
  return "";
}

}  // namespace

void conclude(Verdict& verdict) {
  const bool on_cpu = verdict.device.starts_with("cpu");
  for (auto& c : verdict.cases) {
    if (c.next.empty()) c.next = next_here(c, on_cpu);
    if (c.next.empty() && (c.status == Status::violation || c.rule == "guard"))
      c.next = next_of_rule(c.rule);
    if (c.next.empty()) c.next = info_of(c.status).next;
  }
  name_read_gaps(verdict.cases);
  if (!verdict.cases.empty()) {
    verdict.aggregate = aggregate_of(verdict.cases);
    const CaseVerdict* speaker = nullptr;
    verdict.status = overall(verdict, speaker);
    if (speaker) {
      if (verdict.why.empty() && !speaker->why.empty())
        verdict.why = speaker->op + ", case " + named(*speaker) + ": " + speaker->why +
                      right_beside(verdict, *speaker);
      if (verdict.evidence.empty()) verdict.evidence = speaker->evidence;
      if (verdict.next.empty()) verdict.next = speaker->next;
    }
    if (verdict.why.empty() && !is_failure(verdict.status)) verdict.why = why_of(verdict.aggregate);
  }
  const auto same = std::ranges::find(verdict.cases, verdict.status, &CaseVerdict::status);
  if (verdict.next.empty() && same != verdict.cases.end()) verdict.next = same->next;
  if (verdict.next.empty()) verdict.next = info_of(verdict.status).next;
}

namespace {

// Compares numbers after a round trip through JSON. NaN equals NaN.
bool same_number(double a, double b) {
  constexpr double kRounding = 1e-6;
  return std::abs(a - b) <= kRounding * std::abs(b) || (std::isnan(a) && std::isnan(b));
}

bool same_sums(const Aggregate& a, const Aggregate& b) {
  const auto counts = [](const Aggregate& x) {
    return std::array{x.cases,  x.right,   x.faster,     x.same,   x.slower,  x.cannot_tell,
                      x.failed, x.refused, x.not_judged, x.beside, x.left_out};
  };
  return counts(a) == counts(b) && a.ratio.speed == b.ratio.speed &&
         same_number(a.ratio.value, b.ratio.value) && same_number(a.ratio.low, b.ratio.low) &&
         same_number(a.ratio.high, b.ratio.high);
}

}  // namespace

std::string contradiction(const Verdict& verdict) {
  const auto says = [](Status status) { return std::string("is `") + name_of(status) + "`"; };
  for (const CaseVerdict& c : verdict.cases) {
    if (!is_speed(c.status)) continue;
    const std::string of_case = c.op + ", case " + named(c) + ": " + says(c.status);
    if (c.timings.empty()) return of_case + ", without a time";
    const Ratio& r = c.timings.front().ratio;
    // A single block decides nothing, whatever its interval is.
    const Speed told = r.speed == Speed::unknown ? r.speed : speed_of(r.low, r.high, kBand);
    if (told != r.speed || status_of(told) != c.status)
      return of_case + ", which its interval does not say";
  }
  if (verdict.cases.empty())
    return is_right(verdict.status) ? says(verdict.status) + ", without a case" : "";
  Verdict again;
  again.cases = verdict.cases;
  conclude(again);
  if (again.status != verdict.status)
    return says(verdict.status) + "; of its cases it would be `" + name_of(again.status) + "`";
  return same_sums(verdict.aggregate, again.aggregate) ? ""
                                                       : "its `aggregate` is not that of its cases";
}

}  // namespace fk
