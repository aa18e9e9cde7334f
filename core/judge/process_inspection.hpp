// SPDX-License-Identifier: Apache-2.0
// What can be seen of a candidate's process from outside, where it cannot lie.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/judge/verdict/verdict.hpp"
#include "core/worker/mapped_code.hpp"

namespace fk {

// Of a process before the candidate is loaded; where there is a device it is open by then.
struct ProcessInspection {
  MappedCode code;
  std::optional<uint64_t> handled;  // signals; nothing: not known
  static ProcessInspection of(pid_t pid);
};

// What the process has by now that it had not then: code that is neither the candidate's nor what
// it may link (a library of ready kernels, the baseline's, a file that nobody has linted), or
// signals that it handles (a handler runs when nothing was called). The row says so. `beside`: a
// process of the host's on the same device, whose driver may have put handlers there since; nothing
// on the CPU.
void look_at_process(pid_t pid, const ProcessInspection& before, const std::string& file,
                     std::optional<pid_t> beside, CaseVerdict& row);

}  // namespace fk
