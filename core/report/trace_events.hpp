// SPDX-License-Identifier: Apache-2.0
// Chrome trace events (JSON), which Perfetto (ui.perfetto.dev) and chrome://tracing open. Times are
// microseconds. Slices of one thread are nested; spans of requests overlap, so they are pairs of
// asynchronous events.
#pragma once
#include <string>
#include <vector>

#include "core/base/json.hpp"
#include "core/scenario/trace_run.hpp"

namespace fk {

class TraceEvents {
 public:
  TraceEvents();
  ~TraceEvents();
  TraceEvents(const TraceEvents&) = delete;

  // A new process of the trace; returns its number.
  int64_t process(const std::string& name);
  void thread(int64_t process, int64_t thread, const std::string& name);
  // A slice in a thread that has a name. `args`: an object, or null.
  void slice(int64_t process, int64_t thread, const std::string& name, double begin_s, double end_s,
             const Json& args);
  void span(int64_t process, int64_t id, const std::string& name, double begin_s, double end_s,
            const Json& args);

  // The document, sorted by time. The earliest event is at 0.
  Json document(const Json& about) const;
  bool empty() const { return events_.empty(); }

 private:
  struct Event;
  std::vector<Event> events_;
  std::vector<Event> names_;
  int64_t processes_ = 0;
};

// A process for each side and rank, with its steps, layers and ops, and a span for each request.
// Rounds of one workload begin at the same time on all sides, so that they can be compared by eye.
void add_trace(const ScenarioTrace& trace, const std::string& scenario, TraceEvents& events);

// The times in a document of `bench` (a verdict, verdicts, or the providers of ops), each provider
// in a thread: the median call of each case, one behind the other. The order is the document's, so
// these begins are no moments of the judgement.
void add_bench_times(const Json& document, TraceEvents& events);

}  // namespace fk
