// SPDX-License-Identifier: Apache-2.0
// The seccomp filter of a sealed runner. A kernel's work is arithmetic: what it needs of the
// system is memory, threads and its device.
#pragma once
#include <string>

namespace fk {

struct SyscallRules {
  bool own_user = false;  // the kernel itself keeps it from the processes of others
  bool driver = false;    // as in SandboxPolicy
};

// For all threads, irrevocably. Empty when it is in force, else why it is not. Needs
// no_new_privileges. What no kernel has a use for (a new process or program, a socket, a look into
// another process, a file for writing) raises SIGSYS, whose handler must be installed before and
// cannot be replaced afterwards; the rest fails with EPERM.
std::string install_syscall_filter(const SyscallRules& rules);

// "execve"; null for a call that the filter does not mention. For signal handlers.
const char* syscall_name(int number);

}  // namespace fk
