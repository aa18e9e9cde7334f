// SPDX-License-Identifier: Apache-2.0
// The fields of a verdict, once (core/base/fields.hpp). A field may be added at any time; none
// changes its meaning or goes without a new number in kVerdictSchema.
#pragma once
#include "core/base/fields.hpp"
#include "core/judge/verdict/verdict.hpp"

namespace fk {

inline const std::vector<std::pair<Status, std::string>>& json_names(Status) {
  static const auto names = [] {
    std::vector<std::pair<Status, std::string>> all;
    for (const StatusInfo& info : statuses()) all.emplace_back(info.status, info.name);
    return all;
  }();
  return names;
}

inline const std::vector<std::pair<Speed, std::string>>& json_names(Speed) {
  static const auto names = [] {
    std::vector<std::pair<Speed, std::string>> all;
    for (const Speed speed : {Speed::faster, Speed::same, Speed::slower, Speed::unknown})
      all.emplace_back(speed, speed_name(speed));
    return all;
  }();
  return names;
}

template <class Visitor>
void fields(Visitor& v, WrongAxis& a) {
  v("axis", a.axis, "an axis of the output, as in the contract");
  v("meaning", a.meaning, "its meaning in the contract; empty: none");
  v("size", a.size, "number of indices");
  v("wrong", a.wrong, "number of indices with a wrong element");
  v("indices", a.indices, "these indices in words: all, none, `1 and 2`, `from 16 on`, scattered");
}

template <class Visitor>
void fields(Visitor& v, ErrorFigures& e) {
  v("field", e.field, "the output that is wrong; empty: none");
  v("worst", e.worst,
    "largest error as a share of what is allowed; below 1 is right; null: not a number");
  v("pattern", e.pattern, "the cause, or which elements are wrong, in one sentence");
  v("name", e.name, "name of this pattern's kind, as in docs/verdict.md; empty: nothing is wrong");
  v("axes", e.axes, "axes of the output; empty: nothing is wrong, or a sample was compared");
  v("figures", e.figures, "figures of the pattern, by name");
  v("first_bad", e.first_bad,
    "row-major index of the first wrong element; -1: none, or unknown: a sample was compared");
  v("got", e.got, "the value there; null: no finite number");
  v("want", e.want, "the reference's value there; null: no finite number");
  v("wrong", e.wrong, "number of wrong elements");
  v("compared", e.compared, "number of elements compared");
  v("limit", e.limit, "the error model in words");
}

template <class Visitor>
void fields(Visitor& v, FamilyRow& f) {
  v("family", f.family, "kind of inputs");
  v("status", f.status, "a status; `correct` when every call was right");
  v("calls", f.calls, "calls with such inputs, timed ones included");
  v("worst", f.worst, "largest error as a share of what is allowed");
}

template <class Visitor>
void fields(Visitor& v, MutantRow& n) {
  v("name", n.name, "name of a known wrong answer, which must be rejected");
  v("rejected", n.rejected, "whether it was");
  v("why", n.why, "why it was not tried; empty: it was");
  v("worst", n.worst, "its error as a share of what is allowed");
}

template <class Visitor>
void fields(Visitor& v, PassedOver& p) {
  v("name", p.name, "a baseline that takes the case");
  v("why", p.why, "reason for no race: its process ended, it failed, or its values are wrong");
}

template <class Visitor>
void fields(Visitor& v, Timing& t) {
  v("median_s", t.median_s, "median");
  v("low_s", t.low_s, "first quartile");
  v("high_s", t.high_s, "third quartile");
  v("samples", t.samples, "samples that count");
  v("dropped", t.dropped, "samples that were disturbed (throttled, interrupted) and do not count");
}

template <class Visitor>
void fields(Visitor& v, Ratio& r) {
  v("value", r.value,
    "baseline's time over the candidate's: above 1 the candidate is faster; 0: not timed");
  v("low", r.low, "lower end of the 99 % interval");
  v("high", r.high, "upper end");
  v("blocks", r.blocks, "pairs of turns (A B B A) that it is from");
  v("speed", r.speed, "what the interval says");
}

template <class Visitor>
void fields(Visitor& v, SideTime& s) {
  v("captured", s.captured, "true: calls were graph replays, by its process's report");
  v("cold", s.cold, "one call with flushed caches");
  v("warm_s", s.warm_s,
    "median time of calls on the last call's buffers with new contents; null: not timed");
  v("plan_s", s.plan_s, "time of plan() on the host; not included in other times");
  v("clock_s", s.clock_s, "one call by the broker's own clock, which must agree with `cold`");
  v("roofline", s.roofline,
    "the device's least time for the bytes, the operations and the link over the median");
  v("of_copy", s.of_copy,
    "time of a copy of `bytes` over the median; null: several ranks, or too little memory");
  v("launches", s.launches,
    "kernels, copies and fills of one captured call; this and the next five are what the "
    "provider's "
    "own process reads back from the driver");
  v("kernel", s.kernel, "the kernel with the most threads; the next four fields describe it");
  v("registers", s.registers, "per thread");
  v("local_bytes", s.local_bytes, "local memory per thread: spilled registers and arrays");
  v("shared_bytes", s.shared_bytes, "shared memory per block");
  v("occupancy", s.occupancy, "resident warps as a share of the most that fit, 0 to 1");
}

template <class Visitor>
void fields(Visitor& v, ClockWatch& w) {
  v("looks", w.looks, "number of samples of the driver");
  v("sm_mhz_low", w.sm_mhz_low, "lowest clock of the multiprocessors, MHz");
  v("sm_mhz_high", w.sm_mhz_high, "highest");
  v("memory_mhz_low", w.memory_mhz_low, "lowest clock of the memory, MHz");
  v("memory_mhz_high", w.memory_mhz_high, "highest");
  v("throttled", w.throttled, "share of samples with a throttled device, 0 to 1");
  v("reasons", w.reasons, "all reasons for lower clocks that the driver gave");
}

template <class Visitor>
void fields(Visitor& v, TimingRow& t) {
  v("mode", t.mode,
    "graph (captured and replayed) or eager, of the candidate; the first of a case is judged");
  v("candidate", t.candidate, "its times");
  v("baseline", t.baseline, "the baseline's, in the same race");
  v("ratio", t.ratio, "of the candidate over the baseline");
  v("calls_per_sample", t.calls_per_sample,
    "calls per sample of the candidate; on a device a baseline's sample takes about the same time");
  v("settled", t.settled,
    "false: the time budget ended the race before the noise was small enough");
  v("host_bound", t.host_bound,
    "true: every sample of one side waited for the host, as its process says");
  v("floor_s", t.floor_s, "no honest kernel is faster than this; 0: not known");
  v("bytes", t.bytes, "moved by one call, from the contract");
  v("flops", t.flops, "of one call, from the contract");
  v("wire", t.wire,
    "bytes between the busiest rank and the others at least; 0: none, or ranks share a device");
  v("clocks", t.clocks, "of the GPU during the race, by NVML; null: there is none");
}

template <class Visitor>
void fields(Visitor& v, CaseVerdict& c) {
  v("op", c.op, "the op");
  v("case", c.case_name, "the case");
  v("size", c.size, "of the case: smoke, ci, full, range or captured");
  v("beside", c.beside,
    "true: a smaller case than requested, judged by values and not timed. It covers options that "
    "larger cases leave at defaults, an index beyond 16 bits, or hidden rows");
  v("left_out", c.left_out,
    "true: a default verdict skips it to save time. `why` has its cost; --thorough judges it");
  v("variant", c.variant,
    "a variant of the case, named as by `check`, or with hidden rows; empty: as it is written");
  v("sizes", c.sizes, "axes, constructor values, and dtypes other than the first allowed");
  v("strided", c.strided, "fields with gaps between their rows");
  v("ranks", c.ranks, "how many processes call it together; 1: the op has no communicator");
  v("routing", c.routing,
    "routing for ops with expert ids: uniform, skewed or captured; empty: the case's own");
  v("skew", c.skew, "the busiest expert's load over the mean; 0: no routing");
  v("captured", c.captured,
    "from which run the case was recorded, and with which weights; empty: the contract's");
  v("generated", c.generated, "fields of a recorded case with random contents");
  v("of_uniform", c.of_uniform,
    "the candidate's time over its time in the row with uniform routing; null: there is none");
  v("status", c.status, "of this case");
  v("why", c.why, "one sentence; empty where the status says all");
  v("evidence", c.evidence, "observations: a trace, addresses, indices, a count");
  v("next", c.next, "what to look at next");
  v("rule", c.rule, "of a violation: the broken rule of the ABI");
  v("oracle", c.oracle, "the plugin with the expected values; empty: none");
  v("baseline", c.baseline, "the plugin that it raced; empty: none");
  v("contract_hash", c.contract_hash, "SHA-256 of the op's contract, the file");
  v("case_hash", c.case_hash, "SHA-256 of the case's content, without its name and the seed");
  v("errors", c.errors, "of the worst output of the worst call; null: not compared");
  v("families", c.families, "kinds of inputs that were tried");
  v("nulls", c.nulls, "known wrong answers that tested the comparison");
  v("passed_over", c.passed_over,
    "baselines that failed in this case and were not raced, in the order of trial");
  v("timings", c.timings, "empty: not timed");
}

template <class Visitor>
void fields(Visitor& v, Aggregate& a) {
  v("ratio", a.ratio, "geometric mean over the timed cases, with the interval of the measurements");
  v("cases", a.cases, "all that were asked for");
  v("right", a.right, "with right values, timed or not");
  v("faster", a.faster, "of those that were timed");
  v("same", a.same, "within the band of 1 %");
  v("slower", a.slower, "of those that were timed");
  v("cannot_tell", a.cannot_tell, "the interval holds 1 and more than the band");
  v("failed", a.failed, "the candidate is at fault");
  v("refused", a.refused, "not taken by the candidate");
  v("not_judged", a.not_judged, "untestable, unjudged, or the host's fault");
  v("left_out", a.left_out, "cases that a default verdict leaves out; not in `cases`");
  v("beside", a.beside,
    "smaller cases judged by values; not in `cases`, but in `failed` if they failed");
}

template <class Visitor>
void fields(Visitor& v, Policy& p) {
  v("size", p.size, "of the cases: smoke, ci, full or range");
  v("cases", p.cases, "only these; empty: all of that size");
  v("families", p.families, "only these kinds of inputs; empty: all");
  v("seconds", p.seconds, "of timing per case, about");
  v("threads", p.threads, "that a provider may use on the CPU");
  v("ops", p.ops, "only these; empty: all that the candidate has");
  v("captured", p.captured, "folder of recorded cases; empty: the contracts' cases");
  v("routing", p.routing, "as asked for with --routing; empty: the cases' own");
  v("variants", p.variants, "judged beside the cases as written; `all`: every one");
  v("dtypes", p.dtypes, "the same for dtypes");
  v("thorough", p.thorough,
    "true: all cases of that size are judged and timed; false: those for which there is time");
  v("patience_s", p.patience_s, "without a sign of life before a candidate is stopped");
  v("budget_s", p.budget_s,
    "seconds for the whole verdict; cases beyond it are `environment`; 0: no limit");
  v("sandbox", p.sandbox, "true: a sandbox was requested; `protections` lists its active parts");
}

template <class Visitor>
void fields(Visitor& v, PluginFacts& p) {
  v("name", p.name, "as in its note");
  v("version", p.version, "as in its note");
  v("path", p.path, "where it was");
  v("sha256", p.sha256, "of the file");
}

template <class Visitor>
void fields(Visitor& v, PhaseTime& p) {
  v("what", p.what, "what the judge did, of all cases together");
  v("seconds", p.seconds, "it took");
}

template <class Visitor>
void fields(Visitor& v, Verdict& r) {
  v("candidate", r.candidate, "what was judged");
  v("baselines", r.baselines, "baselines of the race");
  v("status", r.status, "of the whole");
  v("why", r.why, "one sentence; empty where the status says all");
  v("evidence", r.evidence, "what was seen");
  v("next", r.next, "what to look at next");
  v("aggregate", r.aggregate, "over the cases");
  v("cases", r.cases, "one by one");
  v("policy", r.policy, "what was asked for");
  v("device", r.device, "where it ran");
  v("driver", r.driver, "of the device; empty: none");
  v("host", r.host, "the machine: processor and kernel");
  v("host_version", r.host_version, "of fk-host");
  v("host_build", r.host_build, "build id of fk-host");
  v("secret", r.secret, "hex; all seeds are derived from it; empty: none was used");
  v("commitment", r.commitment, "SHA-256 of the secret, made before the first call");
  v("protections", r.protections, "of the referee against the candidate");
  v("log", r.log, "what the candidate's process or the compiler printed");
  v("time", r.time, "when it began, UTC");
  v("seconds", r.seconds, "it took");
  v("spent", r.spent, "seconds by phase, in the order of their start");
  v("stored", r.stored, "true: answered from the store, nothing was run");
  v("receipt", r.receipt, "id of the signed receipt; empty: none was kept");
  v("stale", r.stale,
    "why the file does not match the sources beside it; empty: it matches, or is unknown");
  v("profile", r.profile, "words of Nsight Compute, or why there are none; empty: not asked for");
  v("kernels", r.kernels, "what it saw, a row for each launch of the profiled call");
}

}  // namespace fk
