// SPDX-License-Identifier: Apache-2.0
// Commands of the program, run as a user would.
#pragma once
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

#include "test/catch.hpp"

struct Shell {
  int code = -1;     // the exit code; -1 after a signal
  std::string text;  // the standard output
};

inline Shell shell(const std::string& command) {
  Shell out;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe);
  std::array<char, 4096> data;
  while (const size_t got = std::fread(data.data(), 1, data.size(), pipe))
    out.text.append(data.data(), got);
  const int status = ::pclose(pipe);
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}
