// SPDX-License-Identifier: Apache-2.0
// The seccomp filter of a sealed worker. A kernel only computes: from the system it needs memory,
// threads and its device.
#pragma once
#include <string>

namespace fk {

struct SyscallRules {
  bool own_user = false;  // the kernel itself keeps it from other users' processes
  bool driver = false;    // as in SandboxPolicy
  // The driver's compiler makes files and starts its linker. Landlock says where, and which
  // program.
  bool compiles = false;
};

// Irrevocably, for all threads. Returns an empty text, or the reason why it is not in force. Needs
// no_new_privileges. Calls that no kernel needs (a new process or program, a socket, an inspection
// of another process, a file for writing) raise SIGSYS. Its handler must be installed before, and
// cannot be replaced afterwards. Other calls fail with EPERM.
std::string install_syscall_filter(const SyscallRules& rules);

// "execve"; null for a call that the filter does not list. For signal handlers.
const char* syscall_name(int number);

}  // namespace fk
