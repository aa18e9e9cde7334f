// SPDX-License-Identifier: Apache-2.0
// The documents of `check`, and of `bench` for an op.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/check/bench.hpp"
#include "core/check/check.hpp"
#include "core/check/plugin_set.hpp"
#include "core/judge/verdict/fields.hpp"
#include "core/report/document.hpp"

namespace fk {

// ---- check ----

inline const std::vector<std::pair<CheckStatus, std::string>>& json_names(CheckStatus) {
  static const auto names = [] {
    std::vector<std::pair<CheckStatus, std::string>> all;
    for (const CheckStatus s :
         {CheckStatus::ok, CheckStatus::unsupported, CheckStatus::left_out, CheckStatus::unjudged,
          CheckStatus::untestable, CheckStatus::wrong, CheckStatus::violation})
      all.emplace_back(s, status_name(s));
    return all;
  }();
  return names;
}

template <class Visitor>
void fields(Visitor& v, CheckRow& r) {
  v("op", r.op, "the op; empty: the whole file");
  v("provider", r.provider, "the plugin");
  v("case", r.case_name, "the case; empty: the whole op");
  v("variant", r.variant, "the variant of the case");
  v("status", r.status, "the status of the case");
  v("rule", r.rule, "the broken rule of a violation");
  v("text", r.text, "one sentence");
  v("worst", r.worst, "largest error as a share of what is allowed; null: not a number");
  v.optional("ranks", r.ranks, r.ranks > 1, "number of ranks that call the case together");
  v.optional("echo", r.echo, r.echo, "true: another rank had failed before");
}

struct JudgedFromOutside {
  Status status = Status::unjudged;
  std::string why;
};
template <class Visitor>
void fields(Visitor& v, JudgedFromOutside& j) {
  v("status", j.status, "the status of a verdict");
  v("why", j.why, "one sentence");
}

struct CheckDocument {
  static constexpr const char* kSchema = "fk-host.check/1";
  static constexpr const char* kTitle = "What `fk-host check` says about a plugin";
  std::string plugin, file, stale;
  uint64_t seed = 0;
  std::string size;
  std::vector<std::string> cases;
  bool quick = false;
  std::vector<std::string> families;
  std::string captured, device;
  bool passed = false;
  std::vector<std::string> unjudged;
  std::optional<JudgedFromOutside> judged;
  std::vector<Protection> protections;
  std::string log;
  std::vector<CheckRow> rows;
};
template <class Visitor>
void fields(Visitor& v, CheckDocument& d) {
  v("plugin", d.plugin, "the name of the plugin");
  v("file", d.file, "its file");
  v("stale", d.stale, "why the file is not what its sources make; empty: it is, or unknown");
  v("seed", d.seed, "the seed of the inputs");
  v("size", d.size, "the size of the cases: smoke, ci, full or range");
  v("cases", d.cases, "only these cases; empty: all of the size");
  v("quick", d.quick, "true: cases only as they are written, without variants");
  v("families", d.families, "only these kinds of inputs; empty: all");
  v("captured", d.captured, "the origin of recorded cases; empty: the contracts' cases");
  v("device", d.device, "the device");
  v("passed", d.passed, "whether the plugin passed: no fault, and no op is unjudged");
  v("unjudged", d.unjudged, "ops without a reference for any case that the plugin takes");
  v("judged", d.judged, "the judge's answer to the same cases; null: nobody asked the judge");
  v("protections", d.protections, "the sandbox of the plugin's process");
  v("log", d.log, "the plugin's printed words, the last of them; empty: none");
  v("rows", d.rows, "one row for each case and variant");
}

// ---- bench of an op ----

template <class Visitor>
void fields(Visitor& v, BenchRow& r) {
  double of_copy = r.of_copy();
  bool trusted = r.ranks > 1;
  const bool varies = r.of_uniform.blocks > 0, raced = !r.against.empty();
  v("op", r.op, "the op");
  v("case", r.case_name, "the case; empty: the whole op");
  v("axes", r.axes, "the axes of the case");
  v("provider", r.provider, "the provider");
  v("why", r.why, "why there is no time: refused, wrong, failed, left out; empty: there is one");
  v("note", r.note, "why the values were not judged; the row has a time all the same");
  v("cold_s", r.cold.median_s, "median time of one call with flushed caches");
  v("cold_low_s", r.cold.low_s, "first quartile");
  v("cold_high_s", r.cold.high_s, "third quartile");
  v("samples", r.cold.samples, "samples that count");
  v("dropped", r.cold.dropped, "disturbed samples, which do not count");
  v("warm_s", r.warm_s, "median time on buffers that were just used; 0: not measured");
  v("plan_s", r.plan_s, "time of plan() on the host, which is not part of the others");
  v("calls_per_sample", r.calls, "number of calls in one sample");
  v("captured", r.captured, "true: the calls were replays of a graph");
  v("host_bound", r.host_bound, "true: the device waited for the host");
  v("settled", r.settled, "false: the time budget ended the race before the noise was small");
  v("bytes", r.cost.bytes, "bytes that one call moves, from the contract");
  v("flops", r.cost.flops, "operations of one call, from the contract");
  v("wire", r.cost.wire, "bytes over links; 0: none, or ranks share a device");
  v("copy_s", r.copy_s, "median time of a copy of as many bytes");
  v("of_copy", of_copy, "time of the copy over the cold median");
  v("roofline", r.roofline, "the device's least time over the cold median; 0: unknown");
  v.optional("routing", r.routing, !r.routing.empty(), "routing of tokens to experts");
  v.optional("skew", r.skew, r.skew > 0, "the busiest expert's load over the mean");
  v.optional("of_uniform", r.of_uniform.value, varies, "cold time over that of uniform routing");
  v.optional("of_uniform_low", r.of_uniform.low, varies, "lower end of its 99 % interval");
  v.optional("of_uniform_high", r.of_uniform.high, varies, "upper end");
  v.optional("of_uniform_blocks", r.of_uniform.blocks, varies, "pairs of turns of that race");
  v.optional("against", r.against, raced, "the first provider, which this one races");
  v.optional("speedup", r.ratio.value, raced, "the first provider's time over this one's");
  v.optional("speedup_low", r.ratio.low, raced, "lower end of its 99 % interval");
  v.optional("speedup_high", r.ratio.high, raced, "upper end");
  v.optional("blocks", r.ratio.blocks, raced, "pairs of turns of the race");
  v.optional("verdict", r.ratio.speed, raced, "the answer of the interval");
  v.optional("ranks", r.ranks, r.ranks > 1, "number of ranks that call the case together");
  v.optional("trusted", trusted, trusted, "true: values are compared once, times are claims");
}

struct BenchDocument {
  static constexpr const char* kSchema = "fk-host.bench/2";
  static constexpr const char* kTitle = "The providers of ops, measured by `fk-host bench OP`";
  std::string device, size, captured;
  double seconds = 0;
  std::vector<Protection> protections;
  Unusable unusable;
  std::vector<BenchRow> rows;
};
template <class Visitor>
void fields(Visitor& v, BenchDocument& d) {
  v("device", d.device, "the device");
  v("size", d.size, "the size of the cases: smoke, ci, full or range");
  v("captured", d.captured, "the origin of recorded cases; empty: the contracts' cases");
  v("seconds", d.seconds, "approximate time of one case and provider");
  v("protections", d.protections, "the sandbox of candidates; empty: there was no candidate");
  v("broken_plugins", d.unusable, "plugins that cannot be used");
  v("rows", d.rows, "one row for each case and provider");
}

}  // namespace fk
