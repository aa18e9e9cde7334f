// SPDX-License-Identifier: Apache-2.0
// The status for the end of a candidate's process, and for its words in place of an answer.
#include <map>
#include <string>

#include "core/base/text.hpp"
#include "core/judge/case_run.hpp"
#include "core/worker/crash.hpp"

namespace fk {

namespace {

bool tells_of_access(const std::string& words) {
  const auto says = [&](const char* what) { return words.find(what) != std::string::npos; };
  return says("illegal memory access") || says("misaligned address") ||
         says("invalid program counter");
}

Status status_of_failure(const RunnerFailure& failure) {
  const auto says = [&](const char* what) { return failure.text.find(what) != std::string::npos; };
  if (failure.kind == "lost" && tells_of_access(failure.text)) return Status::illegal_access;
  if (failure.kind == "crashed" && says(kPastEnd)) return Status::illegal_access;
  if (failure.kind == "crashed" && says(kInInput)) return Status::violation;
  static const std::map<std::string, Status> kinds = {
      {"crashed", Status::crashed},    {"exited", Status::crashed},
      {"threw", Status::crashed},      {"hang", Status::hang},
      {"lost", Status::crashed},       {"memory", Status::memory},
      {"protocol", Status::cheating},  {"environment", Status::environment},
      {"op_failed", Status::violation}};
  const auto it = kinds.find(failure.kind);
  return it == kinds.end() ? Status::violation : it->second;
}

// The C library's words for a failure by the sandbox's limits, and the next step.
struct LimitWords {
  const char *says, *next;
};
constexpr const char* kSize =
    "An allocation exceeded the available memory. Check the computed size, and ask the host for "
    "the memory in supports() (need.scratch, need.persistent).";
constexpr const char* kRefused =
    "The sandbox refuses the call. A candidate may use no files, sockets, processes or signals.";
constexpr LimitWords kLimits[] = {
    {"bad_alloc", kSize},
    {"bad_array_new_length", kSize},
    {"Cannot allocate memory", kSize},
    {"Too many open files",
     "A sealed process has 256 descriptors on a CPU and 4096 on a GPU: open nothing in calls."},
    {"Resource temporarily unavailable",
     "No more threads can be started: start few, once, and wait for them."},
    {"Permission denied", "A candidate opens no files. Compile the data into the plugin."},
    // EPERM and ENOSYS: answers of the sandbox's filter.
    {"Operation not permitted", kRefused},
    {"Function not implemented", kRefused}};

}  // namespace

void blame_failure(CaseVerdict& row, const RunnerFailure& failure) {
  row.status = status_of_failure(failure);
  row.why = failure.sentence();
  row.evidence = failure.log.substr(0, 2000);
  row.next = failure.next;
  if (row.status == Status::violation)
    row.rule = failure.kind == "forbidden" ? "sandbox" : failure.kind == "crashed" ? "input" : "";
}

void blame_words(CaseVerdict& row, const std::string& words) {
  const auto says = [&](const char* what) { return words.find(what) != std::string::npos; };
  row.why = words;
  if (starts_with(words, "refused: ")) {
    row.status = Status::refused;
    row.why = words.substr(9);
  } else if (starts_with(words, "capture: ")) {
    row.status = Status::graph_unsafe;
    row.rule = "graph";
    row.why = words.substr(9);
  } else if (tells_of_access(words)) {
    row.status = Status::illegal_access;
  } else {
    row.status = Status::violation;
    row.rule = starts_with(words, "state:")     ? "state"
               : starts_with(words, "prepare:") ? "prepare"
               : starts_with(words, "forward:") ? "forward"
               : starts_with(words, "plan:")    ? "plan"
                                                : "create";
    for (const LimitWords& limit : kLimits)
      if (row.next.empty() && says(limit.says)) row.next = limit.next;
    if (row.next != kSize) return;
    row.status = Status::memory;
    row.rule.clear();
  }
}

void blame(CaseVerdict& row, CandidateClient& client) {
  if (client.runners().failed()) return blame_failure(row, client.runners().failure());
  blame_words(row, client.words());
  row.why = client.who() + row.why;
  if (!client.lost() || row.status != Status::violation) return;
  row.status = Status::crashed;
  row.rule.clear();
}

}  // namespace fk
