// SPDX-License-Identifier: Apache-2.0
#include "core/report/trace_events.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/base/text.hpp"
#include "core/report/document_values.hpp"

namespace fk {

struct TraceEvents::Event {
  char kind;  // X a slice, b and e a span's ends, M a name
  int64_t process, thread, id;
  std::string name;
  double begin_s, end_s;
  Json args;
};

TraceEvents::TraceEvents() = default;
TraceEvents::~TraceEvents() = default;

int64_t TraceEvents::process(const std::string& name) {
  names_.push_back({'M', ++processes_, 0, 0, "process_name", 0, 0, {{"name", printable(name)}}});
  names_.push_back(
      {'M', processes_, 0, 0, "process_sort_index", 0, 0, {{"sort_index", processes_}}});
  return processes_;
}

void TraceEvents::thread(int64_t process, int64_t thread, const std::string& name) {
  names_.push_back({'M', process, thread, 0, "thread_name", 0, 0, {{"name", printable(name)}}});
}

void TraceEvents::slice(int64_t process, int64_t thread, const std::string& name, double begin_s,
                        double end_s, const Json& args) {
  FK_CHECK(end_s >= begin_s, "a slice ends before it begins");
  events_.push_back({'X', process, thread, 0, printable(name), begin_s, end_s, args});
}

void TraceEvents::span(int64_t process, int64_t id, const std::string& name, double begin_s,
                       double end_s, const Json& args) {
  FK_CHECK(end_s >= begin_s, "a span ends before it begins");
  events_.push_back({'b', process, 0, id, printable(name), begin_s, begin_s, args});
  events_.push_back({'e', process, 0, id, printable(name), end_s, end_s, Json()});
}

Json TraceEvents::document(const Json& about) const {
  double first = std::numeric_limits<double>::infinity();
  for (const Event& event : events_) first = std::min(first, event.begin_s);
  const auto ns = [&](double seconds) { return std::llround((seconds - first) * 1e9); };
  std::vector<const Event*> sorted;
  for (const Event& event : events_) sorted.push_back(&event);
  // A slice comes before those inside of it, and a span's end before another's begin.
  std::ranges::stable_sort(sorted, [&](const Event* a, const Event* b) {
    return std::tuple(ns(a->begin_s), a->kind != 'e', -ns(a->end_s)) <
           std::tuple(ns(b->begin_s), b->kind != 'e', -ns(b->end_s));
  });
  Json list = Json::array();
  for (const Event& name : names_)
    list.push_back({{"ph", "M"},
                    {"pid", name.process},
                    {"tid", name.thread},
                    {"name", name.name},
                    {"args", name.args}});
  for (const Event* event : sorted) {
    Json one = {{"ph", std::string(1, event->kind)},
                {"pid", event->process},
                {"tid", event->thread},
                {"ts", static_cast<double>(ns(event->begin_s)) / 1000},
                {"name", event->name}};
    if (event->kind == 'X')
      one["dur"] = static_cast<double>(ns(event->end_s) - ns(event->begin_s)) / 1000;
    else
      one["cat"] = "request", one["id"] = event->id;
    if (!event->args.is_null()) one["args"] = event->args;
    list.push_back(std::move(one));
  }
  return {{"traceEvents", std::move(list)}, {"displayTimeUnit", "ns"}, {"otherData", about}};
}

namespace {

constexpr int64_t kStepThread = 1;

// "model.layers.3" of "model.layers.3.mlp.down_proj"; empty: the node is in no layer.
std::string layer_of(const std::string& path) {
  const auto parts = split(path, '.');
  std::string out;
  for (const auto& part : parts) {
    out += (out.empty() ? "" : ".") + part;
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string::npos) return out;
  }
  return "";
}

void add_step(const NodeTimes& times, const TimedStep& step, double shift_s, int64_t process,
              TraceEvents& events) {
  if (step.nodes.empty()) return;
  const auto at = [&](int64_t ns) {
    return step.begin_s + static_cast<double>(ns) * 1e-9 + shift_s;
  };
  const auto& nodes = times.phases.at(step.phase);
  const auto node = [&](size_t i) -> const TimedNode& {
    return nodes[static_cast<size_t>(step.nodes[i])];
  };
  events.slice(process, kStepThread, step.phase, at(0), at(step.ns.back()),
               {{"ops", step.nodes.size()}});
  for (size_t i = 0; i < step.nodes.size();) {
    const std::string layer = layer_of(node(i).path);
    size_t end = i + 1;
    while (!layer.empty() && end < step.nodes.size() && layer_of(node(end).path) == layer) ++end;
    if (!layer.empty())
      events.slice(process, kStepThread, layer, at(step.ns[2 * i]), at(step.ns[2 * end - 1]), {});
    for (; i < end; ++i)
      events.slice(process, kStepThread, node(i).op, at(step.ns[2 * i]), at(step.ns[2 * i + 1]),
                   {{"path", node(i).path}, {"provider", node(i).provider}});
  }
}

}  // namespace

void add_trace(const ScenarioTrace& trace, const std::string& scenario, TraceEvents& events) {
  // Each workload begins where the longest round of the last one ended.
  std::map<std::string, double> longest, begin;
  std::vector<std::string> workloads;
  for (const TracedRound& round : trace.rounds) {
    if (!contains(workloads, round.workload)) workloads.push_back(round.workload);
    double& most = longest[round.workload];
    most = std::max(most, round.round.end_s - round.round.start_s);
  }
  double next = 0;
  for (const auto& workload : workloads) {
    constexpr double kGap = 1e-3;
    begin[workload] = next;
    next += longest[workload] + kGap;
  }
  std::map<std::pair<std::string, size_t>, int64_t> processes;
  int64_t span = 0;
  for (const TracedRound& round : trace.rounds) {
    const double shift = begin[round.workload] - round.round.start_s;
    for (size_t rank = 0; rank < round.ranks.size(); ++rank) {
      const auto [it, fresh] = processes.try_emplace({round.side, rank}, 0);
      if (fresh) {
        it->second =
            events.process(scenario + ", " + round.side +
                           (round.ranks.size() > 1 ? ", rank " + std::to_string(rank) : ""));
        events.thread(it->second, kStepThread, "steps, layers and ops");
      }
      for (const TimedStep& step : round.ranks[rank].steps)
        add_step(round.ranks[rank], step, shift, it->second, events);
    }
    const auto first = processes.find({round.side, 0});
    if (first == processes.end()) continue;
    for (const auto& [id, result] : round.round.requests) {
      const double start = round.round.start_s + shift;
      const std::string name = round.workload + ", request " + std::to_string(id);
      events.span(
          first->second, ++span, name, start, std::max(start, result.done_s + shift),
          {{"tokens", result.tokens.size()},
           {"first token, ms", result.token_s.empty()
                                   ? Json()
                                   : Json((result.token_s.front() - round.round.start_s) * 1e3)}});
    }
  }
}

namespace {

// Slices of one process, each behind the last of its thread, and threads by name.
class TimesInOrder {
 public:
  TimesInOrder(TraceEvents& events, const std::string& name) : events_(events), name_(name) {}

  // A case begins at the same time in all threads.
  void next_case() {
    for (auto& [name, thread] : threads_) next_s_ = std::max(next_s_, thread.end_s);
    for (auto& [name, thread] : threads_) thread.end_s = next_s_;
  }
  void add(const std::string& thread, const std::string& what, const Json& cold, Json args) {
    const auto median = number_at(cold, "median_s");
    if (!median || !(*median > 0)) return;
    if (!process_) process_ = events_.process(name_);
    const auto [it, fresh] =
        threads_.try_emplace(thread, Thread{static_cast<int64_t>(threads_.size()) + 1, next_s_});
    if (fresh) events_.thread(process_, it->second.number, thread);
    args["first quartile, us"] = number_at(cold, "low_s").value_or(0) * 1e6;
    args["third quartile, us"] = number_at(cold, "high_s").value_or(0) * 1e6;
    events_.slice(process_, it->second.number, what, it->second.end_s, it->second.end_s + *median,
                  args);
    it->second.end_s += *median;
  }

 private:
  struct Thread {
    int64_t number = 0;
    double end_s = 0;
  };
  TraceEvents& events_;
  std::string name_;
  int64_t process_ = 0;
  double next_s_ = 0;
  std::map<std::string, Thread> threads_;
};

void add_verdict_times(const Json& verdict, TraceEvents& events) {
  TimesInOrder times(events, text_at(at_key(verdict, "candidate"), "name") +
                                 ": median call of each case, one behind the other");
  for (const Json& row : list_at(verdict, "cases"))
    for (const Json& timing : list_at(row, "timings")) {
      times.next_case();
      const std::string variant = text_at(row, "variant");
      const std::string what =
          text_at(row, "op") + " " + text_at(row, "case") + (variant.empty() ? "" : ", " + variant);
      const Json args = {{"mode", text_at(timing, "mode")}, {"status", text_at(row, "status")}};
      times.add("baseline", what, at_key(at_key(timing, "baseline"), "cold"), args);
      times.add("candidate", what, at_key(at_key(timing, "candidate"), "cold"), args);
    }
}

}  // namespace

void add_bench_times(const Json& document, TraceEvents& events) {
  if (kind_of_document(document) == "fk-host.verdict") return add_verdict_times(document, events);
  for (const Json& verdict : list_at(document, "verdicts")) add_verdict_times(verdict, events);
  TimesInOrder times(events, "median call of each case, one behind the other");
  std::string last;
  for (const Json& row : list_at(document, "rows")) {
    const std::string what = text_at(row, "op") + " " + text_at(row, "case");
    if (what != last) times.next_case();
    last = what;
    const Json cold = {{"median_s", at_key(row, "cold_s")},
                       {"low_s", at_key(row, "cold_low_s")},
                       {"high_s", at_key(row, "cold_high_s")}};
    times.add(text_at(row, "provider"), what, cold, {{"axes", text_at(row, "axes")}});
  }
}

}  // namespace fk
