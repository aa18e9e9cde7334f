// SPDX-License-Identifier: Apache-2.0
// Landlock without its library: what a process may do to files, sockets and other processes.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fk {

class Landlock {
 public:
  // Rules, not yet in force: only these can be opened, `read` for reading, `devices` for writing
  // and ioctl as well; nothing can be executed, made, renamed or removed. From ABI 4 on no TCP,
  // from 6 on no signals to others. Paths that do not exist are left out; they are looked up now,
  // with the rights that the process has now.
  // For programs that make files (compilers): what is below `programs` can be executed, too, and
  // everything but that be done below `made`.
  Landlock(const std::vector<std::filesystem::path>& read,
           const std::vector<std::filesystem::path>& devices,
           const std::vector<std::filesystem::path>& programs = {},
           const std::vector<std::filesystem::path>& made = {});
  Landlock(const Landlock&) = delete;
  ~Landlock();

  // For all threads, irrevocably. Needs no_new_privileges. Once.
  void enforce();
  int abi() const { return abi_; }  // what the kernel offers; 0: nothing
  // Why it is not in force; empty when it is.
  const std::string& why() const { return why_; }

 private:
  void add(const std::filesystem::path& path, uint64_t allowed);
  int abi_ = 0, rules_ = -1;
  std::string why_ = "the rules were not enforced";
};

}  // namespace fk
