// SPDX-License-Identifier: Apache-2.0
#include "core/judge/process_inspection.hpp"

#include "core/worker/process.hpp"
#include "core/worker/sandbox.hpp"

namespace fk {

ProcessInspection ProcessInspection::of(pid_t pid) {
  return {mapped_code(pid), handled_signals(pid)};
}

void look_at_process(pid_t pid, const ProcessInspection& before, const std::string& file,
                     std::optional<pid_t> beside, CaseVerdict& row) {
  const std::string compiled =
      beside && SandboxPolicy::any_device_compiles() ? compiler_folder(pid).string() + "/" : "";
  const std::string found =
      foreign_code(before.code, mapped_code(pid), file, beside.has_value(), compiled);
  if (!found.empty()) {
    row.status = Status::cheating;
    row.why = "it runs code of another file";
    row.evidence = found;
    return;
  }
  uint64_t more = handled_signals(pid).value_or(0) & ~before.handled.value_or(~uint64_t{0});
  if (beside) more &= ~handled_signals(*beside).value_or(~uint64_t{0});
  constexpr int kOfThreads = 31;  // higher ones are the C library's, or unused
  for (int number = 1; more && number <= kOfThreads; ++number) {
    if (!(more >> (number - 1) & 1)) continue;
    row.status = Status::violation;
    row.rule = "state";
    row.why = "it has put a handler of its own on " + signal_name(number);
    return;
  }
}

}  // namespace fk
