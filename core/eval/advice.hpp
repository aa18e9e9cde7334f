// SPDX-License-Identifier: Apache-2.0
// Where a model's time goes, and what a better kernel could gain. From a recording (docs/record.md)
// and times of its cases: calls of a case times the time of one call.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/base/fields.hpp"
#include "core/contract/contract.hpp"

namespace fk {

// One line of the advice: an op, or an op at one place of the layers.
struct AdviceRow {
  std::string op, phase, place;  // place: the path of its nodes, with * for numbers
  std::string provider, best;  // the model's provider; the fastest right one of the recorded cases
  int level = 1;
  int64_t calls = 0;
  double seconds = 0, share = 0;          // of all calls; of the time in all ops
  std::optional<double> of_limit;         // the limit's time over the measured time, at most 1
  std::string limit;                      // roofline, or copy: of as many bytes
  std::optional<double> gain, best_gain;  // of the whole, at the limit; with `best` in its place
  std::optional<double> most_gain;        // if it took no time; empty: it takes all of it
};
template <class Visitor>
void fields(Visitor& v, AdviceRow& r) {
  v("op", r.op, "the op");
  v("level", r.level, "its level, 1 to 4");
  v("phase", r.phase, "phase of the engine; empty: all phases");
  v("place", r.place, "path of its nodes in the model, with * for numbers; empty: all places");
  v("provider", r.provider, "the model's provider");
  v("calls", r.calls, "calls in the workloads");
  v("seconds", r.seconds, "time of all calls");
  v("share", r.share, "share of the time in all ops");
  v("limit", r.limit, "roofline: the device's least time; copy: a copy of as many bytes");
  v("of_limit", r.of_limit, "the limit's time over the measured time; null: unknown");
  v("gain", r.gain, "speedup of all ops together if this op reached the limit (Amdahl)");
  v("best", r.best, "the fastest right provider; empty: the model has it");
  v("best_gain", r.best_gain, "speedup of all ops together with that provider; null: none");
  v("most_gain", r.most_gain, "speedup of all ops together if this op took no time");
}

struct Advice {
  static constexpr const char* kSchema = "fk-host.advice/1";
  static constexpr const char* kTitle = "Where a model's time goes, by `fk-host advise`";
  std::string scenario, profile, dtype, device;
  double seconds = 0;
  std::vector<std::string> notes;
  std::vector<AdviceRow> ops, places;
};
template <class Visitor>
void fields(Visitor& v, Advice& a) {
  v("scenario", a.scenario, "the scenario");
  v("profile", a.profile, "tiny or full");
  v("dtype", a.dtype, "dtype of activations and weights");
  v("device", a.device, "the device");
  v("seconds", a.seconds, "time in all ops, of every workload once");
  v("notes", a.notes, "what is not measured, and why");
  v("ops", a.ops, "by op, the largest gain first");
  v("places", a.places, "by op, phase and place in the layers, the longest first");
}

// `index` is a recording's, `benches` are documents of `bench OP --recorded` for its ops.
Advice advice_of(const Json& index, const std::vector<Json>& benches, const Catalog& catalog);

}  // namespace fk
