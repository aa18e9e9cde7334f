// SPDX-License-Identifier: Apache-2.0
// Looks at a candidate's process from outside, where it cannot lie.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/judge/verdict/verdict.hpp"
#include "core/worker/mapped_code.hpp"

namespace fk {

// State of a process before the candidate is loaded, with its device open.
struct ProcessInspection {
  MappedCode code;
  std::optional<uint64_t> handled;  // signals with a handler; nothing: unknown
  static ProcessInspection of(pid_t pid);
};

// Compares the process with `before`, and fills the row when it finds new foreign code or signal
// handlers. Foreign code is neither the candidate's file nor one that it may link: a library of
// ready kernels, the baseline's, an unlinted file. A handler could run without a call. `beside` is
// a host process on the same device, whose handlers come from the driver; nothing on the CPU.
void look_at_process(pid_t pid, const ProcessInspection& before, const std::string& file,
                     std::optional<pid_t> beside, CaseVerdict& row);

}  // namespace fk
