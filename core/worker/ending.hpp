// SPDX-License-Identifier: Apache-2.0
// Describes how a process with a candidate ended: the signal, the limit of the sandbox, and the
// author's next step.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace fk {

struct SignalInfo {
  int number;
  const char* kind;   // as in RunnerFailure
  const char* means;  // in a plugin; empty: the process has reported more itself
  const char* next;   // one sentence: the next step
};
// Signals that end a process and have a description; others are reported by name only.
std::span<const SignalInfo> signals_told();

// `kind` as in RunnerFailure; `text`: the fault; `next`: the author's next step, one sentence.
struct Ending {
  std::string kind, text, next;
};
// `status`: from waitpid(). `note`: text of the crash handlers on the board. `held`, `limit`:
// private memory at the crash, and its limit (0: none). `printed`: the last line before the
// handlers' report.
Ending ending_of(int status, const std::string& note, int64_t held, int64_t limit,
                 const std::string& printed);

// True also slightly below the limit: the failed allocation is not part of `bytes`.
bool near_limit(int64_t bytes, int64_t limit);
std::string limit_text(int64_t limit);

}  // namespace fk
