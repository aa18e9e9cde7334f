// SPDX-License-Identifier: Apache-2.0
// How a process that runs a candidate has ended, in words: by which signal, at which limit of the
// sandbox, and what its author looks at next.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace fk {

struct SignalInfo {
  int number;
  const char* kind;   // of a RunnerFailure
  const char* means;  // in a plugin; empty: the process has said more itself
  const char* next;   // one sentence: what to look at next
};
// Those that end a process; all others are told by their name alone.
std::span<const SignalInfo> signals_told();

struct Ending {
  std::string kind, text, next;
};
// `status`: as of waitpid(). `note`: what the handlers of crashes left on the board. `held`,
// `limit`: private memory at the crash, and how much it may be (0: not limited). `printed`: the
// last line before the handlers' own report.
Ending ending_of(int status, const std::string& note, int64_t held, int64_t limit,
                 const std::string& printed);

// Close below the limit counts: the allocation that failed is not part of the sum.
bool near_limit(int64_t bytes, int64_t limit);
std::string limit_text(int64_t limit);

}  // namespace fk
