// SPDX-License-Identifier: Apache-2.0
// The report of a run as JSON (fk-host.run/2).
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/report/run_text.hpp"

namespace fk {

namespace {

// JSON has no NaN and no infinity.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json to_json(const Figure& f) {
  if (f.count == 0) return nullptr;
  return {{"median", number(f.median)},
          {"p10", number(f.p10)},
          {"p90", number(f.p90)},
          {"count", f.count}};
}

Json to_json(const CorrectnessRow& c) {
  if (!c.done) return nullptr;
  return {{"ok", c.ok},
          {"why", c.why},
          {"rms_of_spread", number(c.errors.rms)},
          {"rms_limit", number(c.limits.rms)},
          {"worst1_of_spread", number(c.errors.worst1)},
          {"worst1_limit", number(c.limits.worst1)},
          {"best5_of_spread", number(c.errors.best5)},
          {"best5_limit", number(c.limits.best5)},
          {"rerouted_positions", c.errors.rerouted},
          {"positions", c.errors.rows},
          {"values", c.errors.values},
          {"pattern", c.errors.pattern}};
}

Json to_json(const WorkloadRow& w, bool candidate) {
  Json j = {{"workload", w.workload},
            {"done", w.done},
            {"why", w.why},
            {"rounds", w.rounds},
            {"requests", w.requests},
            {"prompt_tokens", w.prompt_tokens},
            {"output_tokens", w.output_tokens},
            {"round_s", to_json(w.total_s)},
            {"round_s_by_process", w.by_process_s},
            {"prefill_tokens_per_s", to_json(w.prefill_tokens_s)},
            {"decode_tokens_per_s", to_json(w.decode_tokens_s)},
            {"first_token_s", to_json(w.first_token_s)},
            {"token_s", to_json(w.token_s)}};
  if (!candidate) return j;
  j["speedup"] = w.speedup.pairs == 0 ? Json(nullptr)
                                      : Json{{"ratio", number(w.speedup.ratio)},
                                             {"low", number(w.speedup.low)},
                                             {"high", number(w.speedup.high)},
                                             {"by_process", w.speedup.by_process},
                                             {"pairs", w.speedup.pairs}};
  j["verdict"] = w.verdict;
  j["same_tokens"] = number(w.same_tokens);
  return j;
}

Json to_json(const SideReport& s, bool candidate) {
  Json ops = Json::array(), workloads = Json::array();
  for (const auto& op : s.ops)
    ops.push_back({{"phase", op.phase},
                   {"op", op.op},
                   {"level", op.level},
                   {"provider", op.provider},
                   {"nodes", op.nodes},
                   {"refusal", op.refusal}});
  for (const auto& w : s.workloads) workloads.push_back(to_json(w, candidate));
  Json side = {{"name", s.name},
               {"version", s.version},
               {"path", s.path},
               {"verdict", s.verdict},
               {"why", s.why},
               {"private_bytes", s.private_bytes},
               {"ops", std::move(ops)},
               {"correctness", to_json(s.correctness)},
               {"workloads", std::move(workloads)},
               {"log", s.log}};
  if (candidate) side["protections"] = to_json(s.protections);
  return side;
}

Json to_json(const std::optional<ClockWatch>& w) {
  if (!w) return nullptr;
  return {{"looks", w->looks},
          {"sm_mhz", {w->sm_mhz_low, w->sm_mhz_high}},
          {"memory_mhz", {w->memory_mhz_low, w->memory_mhz_high}},
          {"throttled", w->throttled},
          {"reasons", w->reasons}};
}

Json to_json(const std::optional<TooLarge>& t) {
  if (!t) return nullptr;
  return {{"what", t->what}, {"needs_bytes", t->needs_bytes}, {"device_bytes", t->device_bytes}};
}

}  // namespace

Json run_json(const RunReport& r) {
  Json candidates = Json::array(), broken = Json::array();
  for (const auto& c : r.candidates) candidates.push_back(to_json(c, true));
  for (const auto& [path, why] : r.broken_plugins) broken.push_back({{"path", path}, {"why", why}});
  Json spent = Json::object();
  for (const auto& [what, seconds] : r.spent) spent[what] = seconds;
  return {{"schema", "fk-host.run/2"},
          {"scenario", r.scenario},
          {"summary", r.summary},
          {"arch", r.arch},
          {"layers", r.layers},
          {"profile", r.profile},
          {"tp", r.parallel.tp},
          {"ep", r.parallel.ep},
          {"overlap", r.parallel.overlap},
          {"note", r.note},
          {"weights_notes", r.weights_notes},
          {"room", r.room},
          {"dtype", r.dtype},
          {"device", r.device},
          {"host", r.host},
          {"driver", r.driver},
          {"host_build", r.host_build},
          {"date", r.date},
          {"clocks", to_json(r.clocks)},
          {"seed", r.seed},
          {"requests_seed", r.requests_seed},
          {"max_batch", r.max_batch},
          {"pages", r.pages},
          {"weights_bytes", r.weights_bytes},
          {"speed_judged", r.speed_judged},
          {"processes", r.processes},
          {"exit_code", r.exit_code()},
          {"error", r.error},
          {"too_large", to_json(r.too_large)},
          {"seconds", r.seconds},
          {"spent", std::move(spent)},
          {"broken_plugins", std::move(broken)},
          {"baseline", to_json(r.baseline, false)},
          {"candidates", std::move(candidates)}};
}

}  // namespace fk
