// SPDX-License-Identifier: Apache-2.0
// Which files a process has mapped to run code from them, as the kernel tells it to somebody else.
#pragma once
#include <sys/types.h>

#include <map>
#include <string>

namespace fk {

// Paths, and by what the kernel tells their files apart (device and inode); "/memfd:name (deleted)"
// for memory that is loaded as if it were a file. Memory without a name is left out.
using MappedCode = std::map<std::string, std::string>;
// Empty when the process is gone or may not be looked at.
MappedCode mapped_code(pid_t pid);

// The first that `now` has beyond `before`, except for libraries that a candidate may link and
// `own`, the beginning of the candidate's own file name; empty when there is none. With `driver`,
// in a process that has a GPU open, libraries of that and parts of one that `before` has (cuDNN
// loads its own when they are called) are no code of others either. A file that was deleted or
// renamed since, as when this program is built again, is the one that it was.
std::string foreign_code(const MappedCode& before, const MappedCode& now, const std::string& own,
                         bool driver);

}  // namespace fk
