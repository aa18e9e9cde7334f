// SPDX-License-Identifier: Apache-2.0
// Executable file mappings of a process, as the kernel lists them. They show code that a candidate
// has loaded.
#pragma once
#include <sys/types.h>

#include <map>
#include <string>

namespace fk {

// Paths, each with the kernel's identity of the file (device and inode). "/memfd:name (deleted)"
// stands for memory that is loaded like a file. Unnamed memory is left out.
using MappedCode = std::map<std::string, std::string>;
// Empty when the process has ended or may not be inspected.
MappedCode mapped_code(pid_t pid);

// The first entry of `now` that is not in `before`; empty: none. Exceptions are libraries that a
// candidate may link, and `own`, the beginning of the candidate's own file name. With `driver`, in
// a process with an open GPU, the driver's libraries are exceptions too. So are parts of a library
// that `before` has (cuDNN loads its parts on first call). A file that was deleted or renamed
// since, as by a build of this program, counts as the same file. Files below `compiled` are kernels
// from the driver's compiler; empty: it makes none.
std::string foreign_code(const MappedCode& before, const MappedCode& now, const std::string& own,
                         bool driver, const std::string& compiled = "");

}  // namespace fk
