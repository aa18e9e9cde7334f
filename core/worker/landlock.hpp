// SPDX-License-Identifier: Apache-2.0
// Landlock is a feature of the Linux kernel: a process gives up its own access to files, TCP and
// other processes. This class calls the kernel without Landlock's library.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace fk {

class Landlock {
 public:
  // Makes the rules; enforce() puts them into force. Only these paths can be opened: `read` for
  // reading, `devices` also for writing and ioctl. No file can be executed, made, renamed or
  // removed. ABI 4 and later also forbid TCP, ABI 6 and later signals to other processes. Paths are
  // looked up now, with the present rights; missing paths are left out.
  // Two lists serve programs that make files (compilers). Files below `programs` can also be
  // executed, and everything except execution is allowed below `made`.
  Landlock(const std::vector<std::filesystem::path>& read,
           const std::vector<std::filesystem::path>& devices,
           const std::vector<std::filesystem::path>& programs = {},
           const std::vector<std::filesystem::path>& made = {});
  Landlock(const Landlock&) = delete;
  ~Landlock();

  // Irrevocably, for all threads. Needs no_new_privileges. Call it once.
  void enforce();
  int abi() const { return abi_; }  // the kernel's version; 0: none
  // The reason why it is not in force; empty: it is.
  const std::string& why() const { return why_; }

 private:
  void add(const std::filesystem::path& path, uint64_t allowed);
  int abi_ = 0, rules_ = -1;
  std::string why_ = "the rules were not enforced";
};

}  // namespace fk
